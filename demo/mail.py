"""Pennypost and Larkspur: two vendors that send e-mail, each in its own words. Nothing leaves the machine."""

from itertools import count

from demo.calls import CannotDoError, UnusableValueError
from demo.signatures import Outputs
from demo.worlds import world

UNDELIVERABLE: list[str] = world("pennypost")["records"]["undeliverable"]


def mailbox(address: str, key: str) -> str:
    """The part before the @."""
    name, _, host = address.partition("@")
    if not name or "." not in host:
        raise UnusableValueError(key, "is not an e-mail address, such as ada@example.com")
    return name.lower()


class Pennypost:
    world = world("pennypost")

    def __init__(self) -> None:
        self.numbers = count(4_417)
        self.messages: dict[str, Outputs] = {}

    def deliver_message(self, to: str, heading: str, text: str = "", reply_to: str = "") -> Outputs:
        if reply_to:
            mailbox(reply_to, "reply_to")
        state = "BOUNCED" if mailbox(to, "to") in UNDELIVERABLE else "DELIVERED"
        number = f"PP-{next(self.numbers)}"
        self.messages[number] = {"state": state, "to": to, "heading": heading}
        return {"accepted": True, "message_number": number}

    def get_message(self, message_number: str) -> Outputs:
        if message_number not in self.messages:
            raise CannotDoError("message_not_found", f"There is no message {message_number}.")
        return self.messages[message_number]

    def check_address(self, address: str) -> Outputs:
        return {"deliverable": mailbox(address, "address") not in UNDELIVERABLE}


class Larkspur:
    world = world("larkspur")

    def __init__(self) -> None:
        self.numbers = count(2_093)
        self.waiting: set[str] = set()

    def send_note(self, email_address: str, title: str, message: str, at_hour: int | None = None) -> Outputs:
        mailbox(email_address, "email_address")
        note = f"LN-{next(self.numbers)}"
        if at_hour is not None:
            self.waiting.add(note)
        return {"sent": at_hour is None, "note_id": note}

    def take_back_note(self, note_id: str) -> Outputs:
        if note_id not in self.waiting:
            raise CannotDoError("note_not_waiting", f"There is no note {note_id} that waits for its hour.")
        self.waiting.discard(note_id)
        return {"taken_back": True}
