"""What all engines keep in the database: the tables, transactions on them, the history."""
