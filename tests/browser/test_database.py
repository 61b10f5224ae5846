import asyncio

from django.db import connections


def test_a_running_browser_keeps_the_connection_of_its_thread(chromium):
    connection, loop = connections["default"], asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        assert connections["default"] is connection
    finally:
        asyncio._set_running_loop(loop)
