"""The rows of the catalog's tables and of the user's table, as typed values and columns."""
