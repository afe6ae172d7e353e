"""Figures over time: counted in every process, kept in the database, small and bounded.

``recorder`` counts in memory what a process does with a queue, ``keeping`` adds that to
the database every few seconds and once a minute notes how the queue stands (its SQL is in
``statements``), ``trimming`` deletes what is old, ``reading`` is what pages, metrics and
health checks ask.
"""
