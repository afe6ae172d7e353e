"""A language that writes 12 as 1¤2: no localized number goes unseen."""

THOUSAND_SEPARATOR = "¤"
DECIMAL_SEPARATOR = "¤"
NUMBER_GROUPING = 1
