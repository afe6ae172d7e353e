"""Ties to other packages; each module needs one optional dependency."""
