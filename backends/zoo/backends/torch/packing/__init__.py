"""Rows in fewer tokens: `groups` share their prompts, `lines` have no padding."""
