"""Notifications about events, by mail and by webhook.

kinds          the registry of kinds of events
events         the kinds of the catalog: texts and recipients
outbox         a notice, written in the transaction of the change that causes it
dispatch       turns a notice into mails and deliveries if it is still true
mail           one mail for all notices of a short period
webhooks       signed deliveries, in order, with retries
callbacks      the end of a call, sent to the address that its caller gave
subscriptions  the events for which a user wants mail, and the address
"""
