"""Stores of bytes: local folders, memory and object stores, with their errors, requests and retries."""
