"""Membership-inference security of compressed models."""
