"""What people and programs are told when something happens, by mail and by webhook.

kinds          what can happen, in one registry
events         the catalog's own kinds: in which words they are told, and to whom
outbox         one row in the transaction of the change that causes it
dispatch       the row becomes mails and deliveries, once it is still true
mail           one mail for all that came together
webhooks       signed deliveries, in order, until they are taken
subscriptions  who wants to hear what, and where
"""
