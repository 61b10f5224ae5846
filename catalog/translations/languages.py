"""The languages that texts can be translated into, and the names of languages."""

from typing import NamedTuple

from django.conf.locale import LANG_INFO
from django.utils.translation import gettext as _

from core.errors import DomainError


class Language(NamedTuple):
    """A language of people or of vendors' texts. code: as in BCP 47. own_name: its name in the language
    itself.
    name: in English.
    """

    code: str
    own_name: str
    name: str


LANGUAGES = (
    Language("ar", "العربية", "Arabic"),
    Language("cs", "Čeština", "Czech"),
    Language("da", "Dansk", "Danish"),
    Language("de", "Deutsch", "German"),
    Language("en", "English", "English"),
    Language("es", "Español", "Spanish"),
    Language("fi", "Suomi", "Finnish"),
    Language("fr", "Français", "French"),
    Language("he", "עברית", "Hebrew"),
    Language("hi", "हिन्दी", "Hindi"),
    Language("it", "Italiano", "Italian"),
    Language("ja", "日本語", "Japanese"),
    Language("ko", "한국어", "Korean"),
    Language("nb", "Norsk bokmål", "Norwegian"),
    Language("nl", "Nederlands", "Dutch"),
    Language("pl", "Polski", "Polish"),
    Language("pt", "Português", "Portuguese"),
    Language("ru", "Русский", "Russian"),
    Language("sv", "Svenska", "Swedish"),
    Language("tr", "Türkçe", "Turkish"),
    Language("uk", "Українська", "Ukrainian"),
    Language("zh", "中文", "Chinese"),
)
BY_CODE = {language.code: language for language in LANGUAGES}
CODES = tuple(BY_CODE)


def find_language(code: str) -> Language:
    """Return the language. Raises DomainError if texts cannot be translated into it."""
    language = BY_CODE.get(code)
    if language is None:
        message = _("Texts cannot be translated into “{code}”. Use one of these codes: {codes}.").format(
            code=code[:20], codes=", ".join(CODES)
        )
        raise DomainError("unknown_language", message, status=404, fields={"language": message})
    return language


def language_name(code: str) -> str:
    """Return the English name of a language that a text may be in."""
    if code in BY_CODE:
        return BY_CODE[code].name
    return str(LANG_INFO.get(code, {}).get("name", code))
