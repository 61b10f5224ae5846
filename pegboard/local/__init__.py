"""The whole product on one machine, as `make run` starts it: embedded servers, forked programs, demo data."""
