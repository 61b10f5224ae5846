"""OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0: one document describes an API, and every operation in it is a tool.

https://spec.openapis.org/oas/v3.0.4.html https://spec.openapis.org/oas/v3.1.1.html
"""
