"""The web server and the layers before the views: request buffering, headers, errors, the API reference."""
