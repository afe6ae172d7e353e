"""The rules of the queue as pure Python: no Django, no Redis, no clock, no I/O."""
