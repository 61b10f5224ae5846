"""Quillmoor Bank: accounts, payments, cards, rates."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from demo.calls import CannotDoError, UnusableValueError, day
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, flag, text, tool, whole

CURRENCIES = {"EUR": "Euro.", "GBP": "Pound sterling.", "SEK": "Swedish krona."}
SHOPS = ("Alder Books", "Corner Bakery", "Fennick Rail", "Harbour Fuel", "Tilda's Flowers")

# What a customer has to allow, or a caller has to bring along, by tool.
REQUIREMENTS: dict[str, dict[str, Any]] = {
    "Accounts.ListAccounts": {"user_id": True},
    "Payments.ReleasePayment": {
        "authorization": [{"id": "quillmoor-id", "oauth2": {"scopes": ["payments.release"]}}]
    },
    "Cards.ShowPin": {"secrets": [{"id": "card-vault-key"}], "user_id": True},
    "Cards.BlockCard": {"authorization": [{"id": "quillmoor-id", "oauth2": {"scopes": ["cards.block"]}}]},
}


@dataclass(frozen=True, slots=True)
class Account:
    number: str
    name: str
    currency: str


ACCOUNTS = (
    Account("QM10-4471", "Everyday", "EUR"),
    Account("QM10-4488", "Savings", "EUR"),
    Account("QM22-9013", "London", "GBP"),
)


@dataclass(frozen=True, slots=True)
class Payment:
    id: str
    account: str
    amount_cents: int


def account_with(wanted: str) -> Account:
    found = next((account for account in ACCOUNTS if account.number == wanted), None)
    if found is None:
        known = ", ".join(account.number for account in ACCOUNTS)
        raise CannotDoError("no_account", f"There is no account {wanted}.", f"Account numbers: {known}")
    return found


class QuillmoorBank:
    def __init__(self) -> None:
        self.payments: dict[str, Payment] = {}
        self.blocked: set[str] = set()

    @tool(
        "Accounts.ListAccounts",
        "The accounts of the customer who is asking.",
        tags=("accounts",),
        inputs=(choice("currency", "All if left out.", CURRENCIES, optional=True),),
        outputs=(data("accounts", "Number, name and currency of each."),),
    )
    def list_accounts(self, currency: str = "") -> Outputs:
        rows = [{"number": a.number, "name": a.name, "currency": a.currency} for a in ACCOUNTS]
        return {"accounts": [row for row in rows if currency in ("", row["currency"])]}

    @tool(
        "Accounts.GetBalance",
        "What is on an account now.",
        tags=("accounts",),
        inputs=(text("account", "Such as QM10-4471.", longest=9),),
        outputs=(whole("available_cents"), text("currency"), text("as_of", "YYYY-MM-DD", since=2)),
        reworded={2: "What is on an account now, without payments that are prepared and not released."},
    )
    def get_balance(self, account: str) -> Outputs:
        found = account_with(account)
        cents = number(120_00, 9_800_00, found.number, today())
        return {"available_cents": cents, "currency": found.currency, "as_of": str(today())}

    @tool(
        "Accounts.ListTransactions",
        "What came and went on an account, newest first.",
        tags=("accounts",),
        inputs=(
            text("account"),
            text("from_date", "YYYY-MM-DD; thirty days ago if left out.", optional=True),
            whole("most", "20 if left out.", low=1, high=100, optional=True, since=2),
            text("shop", "Only those of a shop.", optional=True, longest=60, since=3),
        ),
        outputs=(data("transactions", "Date, text and cents of each."), flag("has_more", since=2)),
    )
    def list_transactions(self, account: str, from_date: str = "", most: int = 20, shop: str = "") -> Outputs:
        found = account_with(account)
        first = day(from_date, "from_date") if from_date else today() - timedelta(days=30)
        days = [today() - timedelta(days=n) for n in range(min((today() - first).days, 400))]
        rows = [
            {
                "date": str(when),
                "text": pick(SHOPS, found.number, when),
                "cents": -number(150, 8400, found.number, when),
            }
            for when in days
        ]
        wanted = [row for row in rows if shop in ("", row["text"])]
        return {"transactions": wanted[:most], "has_more": len(wanted) > most}

    @tool(
        "Payments.PreparePayment",
        "Prepares a payment and says what it costs. No money moves until it is released.",
        tags=("payments",),
        inputs=(
            text("account", "Where the money comes from."),
            text("to_iban", "Where it goes.", longest=34),
            whole("amount_cents", low=1, high=5_000_000),
            text("reference", optional=True, longest=140),
        ),
        outputs=(text("payment_id"), whole("fee_cents")),
    )
    def prepare_payment(self, account: str, to_iban: str, amount_cents: int, reference: str = "") -> Outputs:
        found = account_with(account)
        if not to_iban[:2].isalpha() or len(to_iban) < 15:
            raise UnusableValueError("to_iban", "must be an IBAN, such as SE4550000000058398257466")
        made = Payment(
            f"P-{number(100_000, 999_999, account, to_iban, amount_cents, reference)}",
            found.number,
            amount_cents,
        )
        self.payments[made.id] = made
        return {"payment_id": made.id, "fee_cents": 0 if to_iban.startswith("SE") else 120}

    @tool(
        "Payments.ReleasePayment",
        "Sends a prepared payment. It cannot be taken back; read amount and receiver to the customer first.",
        tags=("payments",),
        inputs=(text("payment_id", "From PreparePayment."),),
        outputs=(text("arrives_on", "YYYY-MM-DD"),),
    )
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

    @tool(
        "Payments.ListStandingOrders",
        "What an account pays again and again.",
        tags=("payments",),
        inputs=(text("account"),),
        outputs=(data("orders", "To whom, how much and on which day of the month."),),
    )
    def list_standing_orders(self, account: str) -> Outputs:
        found = account_with(account)
        rent = {"to": "Marlow Lettings", "cents": number(600_00, 950_00, found.number), "day": 1}
        return {"orders": [rent]}

    @tool(
        "Cards.ListCards",
        "The cards of an account.",
        tags=("cards",),
        inputs=(text("account"),),
        outputs=(data("cards", "Card id, last four digits, and whether it is blocked."),),
    )
    def list_cards(self, account: str) -> Outputs:
        found = account_with(account)
        card = f"C-{number(1000, 9999, found.number)}"
        return {"cards": [{"card_id": card, "ends_in": card[2:], "is_blocked": card in self.blocked}]}

    @tool(
        "Cards.BlockCard",
        "Blocks a card at once and for good. A new one is sent by post.",
        tags=("cards",),
        inputs=(
            text("card_id", "From ListCards."),
            choice(
                "reason",
                "",
                {"LOST": "Gone.", "STOLEN": "Taken by somebody."},
                widened={2: {"DAMAGED": "It does not work any more."}},
            ),
        ),
        outputs=(text("new_card_by", "YYYY-MM-DD"),),
    )
    def block_card(self, card_id: str, reason: str) -> Outputs:
        self.blocked.add(card_id)
        return {"new_card_by": str(today() + timedelta(days=4 if reason == "STOLEN" else 7))}

    @tool(
        "Cards.ShowPin",
        "Where the customer can see the PIN of a card. The PIN itself is never told.",
        tags=("cards",),
        inputs=(text("card_id"),),
        outputs=(text("value"),),
    )
    def show_pin(self, card_id: str) -> Outputs:
        return {"value": f"https://quillmoor-bank.example/pin/{card_id}"}

    @tool(
        "Rates.ExchangeRate",
        "How much of one currency a unit of another buys, as a whole number of ten-thousandths.",
        tags=("rates",),
        inputs=(choice("sold", "", CURRENCIES), choice("bought", "", CURRENCIES)),
        outputs=(whole("value", low=1),),
    )
    def exchange_rate(self, sold: str, bought: str) -> Outputs:
        return {"value": 10_000 if sold == bought else number(800, 115_000, sold, bought)}

    @tool(
        "Desk.AskForCall",
        "Asks an adviser to call the customer back.",
        tags=("desk",),
        inputs=(
            text("about", longest=200),
            choice("when", "", {"MORNING": "Until noon.", "AFTERNOON": "From noon on."}, optional=True),
        ),
        outputs=(),
    )
    def ask_for_call(self, about: str, when: str = "MORNING") -> Outputs:
        return {}
