import pytest

from demo.calls import CannotDoError, UnusableValueError
from demo.mail import Larkspur, Pennypost


def test_a_message_to_no_mailbox_is_accepted_and_bounces():
    post = Pennypost()
    receipt = post.deliver_message("noreply@example.com", "Ready")
    assert receipt["accepted"] is True
    assert post.get_message(receipt["message_number"])["state"] == "BOUNCED"
    assert post.check_address("noreply@example.com") == {"deliverable": False}
    with pytest.raises(UnusableValueError, match="not an e-mail address"):
        post.deliver_message("ada", "Ready")


def test_a_note_is_taken_back_once_while_it_waits():
    notes = Larkspur()
    assert notes.send_note("ada@example.com", "Ready", "Come by.")["sent"] is True
    waiting = notes.send_note("ada@example.com", "Ready", "Come by.", at_hour=9)
    assert waiting["sent"] is False
    assert notes.take_back_note(waiting["note_id"]) == {"taken_back": True}
    with pytest.raises(CannotDoError, match="no note"):
        notes.take_back_note(waiting["note_id"])
