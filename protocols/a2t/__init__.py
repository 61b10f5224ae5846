"""A2T and N-ACT, which are one wire format under two names.

https://datatracker.ietf.org/doc/draft-rosenberg-aiproto-a2t/00/
https://datatracker.ietf.org/doc/draft-rosenberg-aiproto-nact/00/
"""
