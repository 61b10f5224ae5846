"""Obvious orders to a model in other languages than English, with a short list for each. Pure.

In a phrase, “..” matches other words and “|” separates alternatives. Phrases are compared in the normalized
form of texts, so accents and look-alikes do not matter.
"""
# ruff: noqa: RUF001, E501 - other alphabets have letters that look like Latin ones; one phrase, one line

import re
from collections.abc import Mapping
from itertools import chain

from catalog.rules.inspection.clauses import Clause, clause, gap
from catalog.rules.inspection.folding import fold_text
from catalog.rules.inspection.letters import legible

OVERRIDES = {
    "Spanish": (
        "ignora|ignore|ignorar|olvida|olvide|omite|desatiende|descarta .. instrucciones|reglas|indicaciones"
        "|órdenes|directrices",
        "haz caso omiso .. instrucciones|reglas|indicaciones",
        "no sigas|no obedezcas .. instrucciones|reglas",
    ),
    "French": (
        "ignore|ignorez|ignorer|oublie|oubliez|néglige|négligez .. instructions|consignes|règles|directives",
        "ne tiens pas|ne tenez pas|ne tiens plus .. compte .. instructions|consignes|règles",
        "ne suis pas|ne suivez pas|n'obéis plus .. instructions|consignes|règles",
    ),
    "German": (
        "ignoriere|ignorieren sie|vergiss|vergessen sie|missachte|missachten sie|übergehe|beachte .. anweisungen"
        "|instruktionen|regeln|vorgaben|anordnungen",
        "befolge|folge|befolgen sie .. nicht .. anweisungen|regeln|vorgaben",
        "anweisungen|regeln|vorgaben .. gelten nicht mehr|sind ungültig",
    ),
    "Portuguese": (
        "ignore|ignora|ignorar|esqueça|esquece|desconsidere|desconsidera .. instruções|regras|orientações"
        "|ordens|diretrizes",
        "não siga|não obedeça .. instruções|regras",
    ),
    "Italian": (
        "ignora|ignorare|ignorate|dimentica|dimenticate|trascura .. istruzioni|regole|indicazioni|direttive",
        "non seguire|non seguite .. istruzioni|regole",
    ),
    "Russian": (
        "игнорируй|игнорируйте|забудь|забудьте|проигнорируй|отбрось|не выполняй .. инструкции|указания|правила"
        "|команды|инструкций",
    ),
    "Chinese": (
        "忽略|无视|忘记|忽視|無視|忘掉|不要遵守|不要遵循|不要理会 .. 指令|指示|指引|规则|提示|說明|说明|規則|要求",
    ),
    "Japanese": ("指示|命令|指令|ルール|プロンプト|説明 .. 無視|忘れて|従わないで|忘れろ",),
    "Korean": ("지시|명령|지침|규칙|프롬프트 .. 무시|잊어|따르지",),
    "Arabic": ("تجاهل|انس|لا تتبع .. التعليمات|تعليمات|القواعد|الأوامر",),
    "Hindi": ("निर्देशों|निर्देश|नियमों .. अनदेखा|नज़रअंदाज़|भूल",),
    "Dutch": ("negeer|vergeet|negeren .. instructies|aanwijzingen|regels|opdrachten",),
    "Polish": ("zignoruj|ignoruj|zapomnij|pomiń .. instrukcje|instrukcji|polecenia|poleceń|zasady",),
    "Turkish": ("talimatları|talimatlarını|kuralları|komutları .. yok say|görmezden gel|unut|dikkate alma",),
}
CONCEALS = {
    "Spanish": (
        "no .. digas|diga|informes|informe|menciones|mencione|reveles|muestres|avises|cuentes .. usuario|cliente"
        "|nadie",
        "sin que .. usuario|cliente .. sepa|note|entere",
        "oculta|ocultar|esconde .. al usuario|del usuario",
    ),
    "French": (
        "ne|n' .. dis|dites|informe|informez|mentionne|mentionnez|révèle|révélez|montre|montrez|préviens"
        " .. utilisateur|client|personne",
        "à l'insu|sans que|sans prévenir|sans informer .. utilisateur|client",
        "cache|cachez .. à l'utilisateur",
    ),
    "German": (
        "sag|sage|sagen sie|erzähle|erzähl|erzählen sie|verrate|verrat|teile|teil|zeige|erwähne|informiere .. nutzer"
        "|benutzer|anwender|kunden|niemandem .. nichts|nicht|kein",
        "sag|sage|erzähle|verrate .. niemandem",
        "ohne .. wissen|zustimmung .. nutzers|benutzers|anwenders|kunden",
        "verheimliche|verschweige|verbirg .. nutzer|benutzer|anwender",
    ),
    "Portuguese": (
        "não .. conte|diga|informe|mencione|revele|mostre|avise|fale .. usuário|utilizador|cliente|ninguém",
        "sem que .. usuário|utilizador|cliente .. saiba|perceba",
        "esconda|oculte .. do usuário|do utilizador",
    ),
    "Italian": (
        "non .. dire|dirlo|informare|menzionare|rivelare|mostrare|avvisare .. utente|cliente|nessuno",
        "all'insaputa .. utente|cliente",
    ),
    "Russian": (
        "не .. говори|сообщай|рассказывай|упоминай|показывай|уведомляй .. пользовател|клиент|никому",
        "никому не|втайне от|без ведома .. говори|рассказывай|сообщай|пользовател|клиент",
        "скрой|скрывай|скрывайте .. от пользовател",
    ),
    "Chinese": (
        "不要|别|別|请勿|切勿|不得|不能|無需|无需 .. 告诉|告訴|告知|通知|透露|提及|展示|让 .. 用户|用戶|使用者|任何人",
        "向|对|對|瞒着 .. 用户|用戶|使用者 .. 保密|隐瞒|隱瞞|偷偷",
    ),
    "Japanese": (
        "ユーザー|利用者 .. 伝えないで|言わないで|知らせないで|教えないで|秘密|見せないで|気づかれ",
    ),
    "Korean": ("사용자 .. 말하지|알리지|보여주지|비밀|모르게",),
    "Arabic": ("لا تخبر|لا تقل|لا تذكر|أخف .. المستخدم|أحد|العميل",),
    "Hindi": ("उपयोगकर्ता|यूज़र .. मत बता|न बता|नहीं बता|छिपा",),
    "Dutch": (
        "zeg|vertel .. niets|niet .. gebruiker|klant|niemand",
        "zonder .. medeweten|toestemming .. gebruiker|klant",
    ),
    "Polish": ("nie .. mów|informuj|wspominaj|ujawniaj|pokazuj .. użytkownik|klient|nikomu",),
    "Turkish": ("kullanıcıya|kullanıcı|müşteriye|kimseye .. söyleme|bildirme|bahsetme|gösterme|haber verme",),
}
LEAKS = {
    "Spanish": (
        "revela|revele|muestra|muestre|imprime|envía .. prompt del sistema|instrucciones del sistema",
    ),
    "French": (
        "révèle|révélez|affiche|affichez|montre|montrez .. prompt système|invite système|instructions système",
    ),
    "German": (
        "zeige|zeig|verrate|nenne|gib|drucke .. systemprompt|system-prompt|systemanweisung|deine anweisungen",
    ),
    "Portuguese": ("revele|revela|mostre|mostra|imprima .. prompt do sistema|instruções do sistema",),
    "Italian": ("rivela|mostra|stampa|invia .. prompt di sistema|istruzioni di sistema",),
    "Russian": (
        "покажи|раскрой|выведи|напечатай .. системный промпт|системные инструкции|системную подсказку",
    ),
    "Chinese": ("显示|输出|透露|泄露|告诉我|顯示|輸出|打印 .. 系统提示|系統提示|提示词|初始指令|提示詞",),
    "Japanese": ("システムプロンプト .. 表示|出力|教えて|見せて",),
    "Korean": ("시스템 프롬프트 .. 출력|보여|알려",),
}


def clauses_of(phrases: Mapping[str, tuple[str, ...]]) -> tuple[Clause, ...]:
    clauses = []
    for phrase in chain.from_iterable(phrases.values()):
        folded = []
        for choice in phrase.split(" .. "):
            # Folded like texts. A capital letter may look like another letter than its lower-case form does.
            cased = (form for word in choice.split("|") for form in (word, word.capitalize(), word.upper()))
            folded.append(list(dict.fromkeys(fold_text(legible(form)).strip() for form in cased)))
        begins, *others = folded
        # At the beginning of a word, in scripts with spaces between words.
        choices = (
            "|".join(rf"\b{re.escape(word)}" if word[0] <= "\u04ff" else re.escape(word) for word in choice)
            for choice in others
        )
        clauses.append(clause(tuple(begins), "".join(f"{gap(40)}(?:{choice})" for choice in choices)))
    return tuple(clauses)
