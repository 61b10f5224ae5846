"""The template of a new procedure, with the parts of the draft's example (N-ACT, section 1)."""

TEMPLATE = """\
## Goal

What the customer has when this is done.

## When to follow this

What the customer says or wants.

## What must be known first

Who the customer is, and what the conversation must have collected, each as a word in braces: {customer_name}.

## Steps

1. Write a step in plain words. Type @ to name a tool.
2. Say what to do with its result.

## What to tell the customer

What to say, and what to keep back.

## Confirmation

What to ask before anything is changed.

## Exceptions

What to do when nothing is found, or when a tool fails.
"""
