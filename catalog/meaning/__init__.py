"""Compares meanings: one process of each host makes the vectors of tools, stores them and compares them.

It is a process of its own because the models take 220 MB, which no web worker has to spare. It opens no
database: texts come in over a Unix socket in the directory of the search index (`client`, `server`). Its
files may be lost at any time and are made again; without it, words alone answer.
"""
