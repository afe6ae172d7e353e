"""The queue in the project's own database: SQLite, PostgreSQL, MariaDB or MySQL."""
