"""Taking over what a liteworks file holds.

- ``source``: the file: is it one, what is in it, its rows at one moment.
- ``moments``, ``envelope``, ``names``: what a row's times, payload and message type mean.
- ``reading``: a row as a job of ours, or why it cannot be one.
- ``takeover``: storing what is missing; ``report``: what that found and did.

liteworks (0.1.0) keeps one SQLite file per queue, with the tables ``jobs``, ``failed_jobs`` and
``completed_jobs``. Its README names the columns and not their types, nor how a payload names its
message; so what the file really holds is recognised, and what is not is refused.
"""
