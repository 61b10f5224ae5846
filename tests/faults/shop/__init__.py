"""An app whose migrations are not atomic: one of each operation of core/migration_operations.py."""
