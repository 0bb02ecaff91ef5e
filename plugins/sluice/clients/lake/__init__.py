"""Clients over PyIceberg's tables."""
