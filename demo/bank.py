"""Quillmoor Bank: accounts, payments, cards, rates."""

from dataclasses import dataclass
from datetime import timedelta

from demo.calls import CannotDoError, UnusableValueError, day
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.worlds import world

WORLD = world("quillmoor")


@dataclass(frozen=True, slots=True)
class Account:
    number: str
    name: str
    currency: str


ACCOUNTS = [Account(**row) for row in WORLD["records"]["accounts"]]


@dataclass(frozen=True, slots=True)
class Payment:
    id: str
    account: str
    amount_cents: int


def account_with(number: str) -> Account:
    account = next((account for account in ACCOUNTS if account.number == number), None)
    if account is None:
        numbers = ", ".join(account.number for account in ACCOUNTS)
        raise CannotDoError("no_account", f"There is no account {number}.", f"Account numbers: {numbers}")
    return account


class QuillmoorBank:
    world = WORLD

    def __init__(self) -> None:
        self.payments: dict[str, Payment] = {}
        self.blocked: set[str] = set()

    def list_accounts(self, currency: str = "") -> Outputs:
        rows = [{"number": a.number, "name": a.name, "currency": a.currency} for a in ACCOUNTS]
        return {"accounts": [row for row in rows if currency in ("", row["currency"])]}

    def get_balance(self, account: str) -> Outputs:
        bank_account = account_with(account)
        cents = number(120_00, 9_800_00, bank_account.number, today())
        return {"available_cents": cents, "currency": bank_account.currency, "as_of": str(today())}

    def list_transactions(self, account: str, from_date: str = "", most: int = 20, shop: str = "") -> Outputs:
        bank_account = account_with(account)
        first = day(from_date, "from_date") if from_date else today() - timedelta(days=30)
        days = [today() - timedelta(days=n) for n in range(min((today() - first).days, 400))]
        rows = [
            {
                "date": str(when),
                "text": pick(WORLD["records"]["shops"], bank_account.number, when),
                "cents": -number(150, 8400, bank_account.number, when),
            }
            for when in days
        ]
        matching = [row for row in rows if shop in ("", row["text"])]
        return {"transactions": matching[:most], "has_more": len(matching) > most}

    def prepare_payment(self, account: str, to_iban: str, amount_cents: int, reference: str = "") -> Outputs:
        bank_account = account_with(account)
        if not to_iban[:2].isalpha() or len(to_iban) < 15:
            raise UnusableValueError("to_iban", "must be an IBAN, such as SE4550000000058398257466")
        payment = Payment(
            f"P-{number(100_000, 999_999, account, to_iban, amount_cents, reference)}",
            bank_account.number,
            amount_cents,
        )
        self.payments[payment.id] = payment
        return {"payment_id": payment.id, "fee_cents": 0 if to_iban.startswith("SE") else 120}

    def release_payment(self, payment_id: str) -> Outputs:
        if payment_id not in self.payments:
            waiting = ", ".join(self.payments) or "none"
            raise CannotDoError(
                "no_payment",
                f"No payment {payment_id} waits to be released.",
                f"Payments that wait: {waiting}",
            )
        self.payments.pop(payment_id)
        return {"arrives_on": str(today() + timedelta(days=1))}

    def list_standing_orders(self, account: str) -> Outputs:
        bank_account = account_with(account)
        rent = {"to": "Marlow Lettings", "cents": number(600_00, 950_00, bank_account.number), "day": 1}
        return {"orders": [rent]}

    def list_cards(self, account: str) -> Outputs:
        bank_account = account_with(account)
        card = f"C-{number(1000, 9999, bank_account.number)}"
        return {"cards": [{"card_id": card, "ends_in": card[2:], "is_blocked": card in self.blocked}]}

    def block_card(self, card_id: str, reason: str) -> Outputs:
        self.blocked.add(card_id)
        return {"new_card_by": str(today() + timedelta(days=4 if reason == "STOLEN" else 7))}

    def show_pin(self, card_id: str) -> Outputs:
        return {"value": f"https://quillmoor-bank.example/pin/{card_id}"}

    def exchange_rate(self, sold: str, bought: str) -> Outputs:
        return {"value": 10_000 if sold == bought else number(800, 115_000, sold, bought)}

    def ask_for_call(self, about: str, when: str = "MORNING") -> Outputs:
        return {}
