"""The answers of mocks: generated values, examples, situations, and assertions about calls. Pure."""
