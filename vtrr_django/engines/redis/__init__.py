"""The queue in Redis: the keys, the Lua scripts that move jobs between them, the engine."""

try:
    import redis as _redis  # noqa: F401 - whether it can be imported is the question
except ImportError as error:
    raise ImportError(f'{error}; pip install "vtrr-django[redis]"') from error
