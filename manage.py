#!/usr/bin/env python
"""Django's command line, for the example project unless told otherwise."""

import os
import sys


def main() -> None:
    """Run the command given as arguments."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after settings

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
