"""The settings of the product, with this app."""

from pegboard.settings import *  # noqa: F403
from pegboard.settings import INSTALLED_APPS as PRODUCT_APPS

INSTALLED_APPS = [*PRODUCT_APPS, "tests.faults.shop"]
