"""Reads the tables of users in pieces, and joins tables that need not fit in memory."""
