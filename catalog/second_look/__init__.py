"""Reading a list again as another client, to find vendors that show others another tool. Off by default.

No other package needs this one. To remove it, delete this folder and `templates/catalog/_second_look.html`,
and the lines that register them: two tasks in `catalog/tasks.py` with their entry in the schedule of
`pegboard/settings.py`, a route each in `catalog/api/urls.py` and `catalog/urls.py`, the include in
`templates/catalog/endpoint.html` with its value in `catalog/views/endpoints.py`, and the name in the layers
of `pyproject.toml`. The tables stay, because findings keep the documents that other clients received.
"""
