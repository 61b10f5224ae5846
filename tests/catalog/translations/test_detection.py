import pytest

from catalog.translations.detection import detect_language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Search for issues in a repository and return the matching ones with their labels."),
        ("de", "Legt eine neue Bestellung an und gibt die Nummer der Bestellung zurück."),
        ("fr", "Renvoie la liste des factures d'un client pour une période donnée."),
        ("es", "Busca vuelos entre dos ciudades y devuelve los precios de cada uno."),
        ("sv", "Hämtar en lista över alla kunder och deras beställningar."),
        ("ru", "Возвращает список заказов клиента за указанный период времени."),
        ("he", "מחזיר את רשימת ההזמנות של הלקוח בתקופה שנבחרה על ידי המשתמש"),
        ("ja", "注文の状態を調べて、配送情報を返します。"),
        ("zh", "查询订单状态并返回物流信息和预计到达时间。"),
    ],
)
def test_prose_is_recognized(language, text):
    assert detect_language(text) == language
    assert detect_language(f"{text} `GET /v1/orders` https://api.example.com/orders") == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Get user",
        "Bestellung anlegen",
        "create_invoice",
        "订单",
        "GET https://api.example.com/v1/users?limit=50&cursor=abc POST /v1/orders {id}",
        "\ud83d" * 50,
        "\0" * 100,
        "x" * 100_000,
        "12345 67890 " * 20,
    ],
)
def test_names_and_code_are_not_guessed(text):
    assert detect_language(text) == ""


def test_control_characters_do_not_hide_a_language():
    assert detect_language("Legt eine neue\x0b Bestellung\0 an und gibt die \u202eNummer zurück.") == "de"
