"""The stores behind a queue: one package per engine, one contract in ``base``."""
