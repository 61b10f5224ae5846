"""Patterns of wording that steers a model instead of describing a tool, by rule. Data.

They match obvious attempts in any markup and spacing (catalog/rules/inspection/folding.py). Gaps between
words are bounded and end with the sentence, so matching is fast for any text.
"""
# ruff: noqa: E501 - a pattern is easier to read in one line

import re

from catalog.rules.inspection import phrases
from catalog.rules.inspection.clauses import clause, gap

# Names for people in texts that address a model. “users” alone is normal in descriptions.
_USER = r"(?:end[- ]?)?(?:users?|humans?|operators?|customers?|persons?|clients?|owner|people)\b"
_THE_USER = rf"(?:the {_USER}|whoever\b|anyone\b|anybody\b)"
_PEOPLE = rf"(?:{_THE_USER}|\b(?:users?|humans?|operators?|people)\b)"
_NOT = (
    "do not|don't|dont|does not|doesn't|never|must not|mustn't|should not|shouldn't|shall not|cannot|can't"
    "|without|avoid|refrain from|no need to|not necessary to|not to be|no longer"
)
_UNSEEN = (
    "silently|secretly|covertly|discreetly|stealthily|surreptitiously|unnoticed|in secret|behind the scenes"
)
CONCEAL = (
    clause(
        _NOT,
        rf" {gap(25)}\b(?:tell|mention|reveal|inform|notify|disclos|alert|warn)(?:e|s|ing|ed)?\b{gap(40)}{_PEOPLE}"
        rf"| {gap(15)}\b(?:show|display|expose|announce|admit|explain|report|say)(?:ing|ed|n)? {gap(30)}\bto {_THE_USER}"
        rf"| (?:ever )?let {_THE_USER} {gap(15)}(?:know|see|notice|find out)"
        r"| (?:ever )?(?:say|mention|reveal) (?:anything|any of this|a word)\b"
        r"| (?:ever )?(?:speak|talk|bring up|mention)(?: of| about)? (?:this|these|it|the)"
        r" (?:second|hidden|instructions?|step|text|message|note)",
    ),
    clause(
        "the ",
        rf"{_USER} {gap(20)}\b(?:must|should|may|can|need|does|do|will|shall|is|are) ?(?:not|n't|never)\b{gap(20)}"
        r"\b(?:know|see|learn|notice|find out|told|informed|aware|reali[sz]e|discover|hear)\b"
        rf"|{_USER} {gap(20)}(?:remains?|stays?|be kept) (?:unaware|in the dark|ignorant)",
    ),
    clause(
        "users ",
        r"(?:must|should|may|need|will|shall) (?:not|never) (?:know|learn|notice|find out|reali[sz]e)\b",
    ),
    clause(
        "keep this|keep it|keep that|keep these|keep all|kept this",
        r"[\w' ]{0,25}?\b(?:secret|hidden|confidential|quiet|between us|to yourself)\b",
    ),
    clause(
        "hide this|hide these|hide it|hide that|hide the fact|conceal this|conceal the|conceal it|withhold this"
        "|withhold the",
        rf"{gap(30)}\bfrom {_THE_USER}",
    ),
    clause(
        _UNSEEN,
        r",? (?:also )?(?:send|forward|append|attach|upload|copy|include|read|collect|call|bcc|log|post|transmit"
        r"|export|exfiltrate|store|record|share|pass)",
    ),
    clause(
        "without ",
        rf"the {_USER}'?s?'? (?:knowledge|consent|approval|awareness|noticing|knowing|being told)"
        rf"|the (?:knowledge|consent|approval) of {_THE_USER}"
        rf"|asking (?:{_THE_USER}|for {gap(15)}(?:confirmation|permission|approval|consent) (?:from|of) {_THE_USER})",
    ),
    clause("as if nothing ", r"(?:had )?happened\b"),
    clause(
        _NOT,
        r" (?:ever )?(?:reveal|disclose|mention|tell|show|bring up|discuss)"
        r" (?:(?:these|this|your) (?:instructions?|steps?|tool|prompt)|that you)\b",
    ),
    clause(
        "hide |conceal ",
        rf"(?:the |this |your )?(?:tool |function )?(?:calls?|steps?|actions?) from {_THE_USER}",
    ),
    *phrases.clauses_of(phrases.CONCEALS),
)

_RULES = (
    r"(?:instructions?|prompts?|guidelines?|guidance|guardrails?|directives?|directions|commands?|orders"
    r"|safeguards|training|programming|polic(?:y|ies))\b"
)
_BEFORE = r"\b(?:previous|prior|above|earlier|preceding|foregoing|initial|original|former)(?:ly)?\b"
_SAFETY = (
    r"(?:safety|security|content|ethical|moderation) (?:checks?|filters?|guidelines?|rules|polic(?:y|ies)"
    r"|measures|guardrails?|instructions?|protocols?)"
)
_FROM_OTHERS = r"(?:given|above|before|you (?:were|have)|(?:from|by|of) (?:the|your) (?:operator|developer|system|user|admin))"
_SET_ASIDE = "|".join(
    (
        "ignore|ignoring|disregard|disregarding|forget|forgetting|neglect|overrule|overruling|set aside|put aside|throw out",
        "pay no attention to|pay no heed to|give no regard to|stop following|stop obeying|stop respecting|stop applying",
        *(
            "|".join(
                f"{no} {verb}"
                for verb in ("follow", "obey", "comply", "respect", "adhere", "abide", "listen", "heed")
            )
            for no in (
                "do not",
                "don't",
                "never",
                "stop",
                "no longer",
                "not have to",
                "longer have to",
                "not need to",
            )
        ),
    )
)
_GET_AROUND = (
    f"{_SET_ASIDE}|override|overriding|bypass|bypassing|skip|skipping|circumvent|abandon|discard|drop|disable"
)
OVERRIDE = (
    clause(
        _SET_ASIDE,
        rf"\b{gap(30)}{_BEFORE}{gap(25)}\b(?:{_RULES}|rules\b|messages\b|context\b|text\b|restrictions\b|tasks?\b)"
        rf"|\b{gap(12)}\byour\b{gap(15)}\b(?:{_RULES}|rules\b|restrictions\b)"
        rf"|\b{gap(25)}\b(?:rules?|instructions?|orders|guidelines|restrictions|policies) {gap(12)}\b{_FROM_OTHERS}"
        rf"| (?:with )?(?:what(?:ever)?|anything|everything|any restrictions) {gap(12)}"
        r"\b(?:users?|humans?|operators?|you|owner)\b",
    ),
    clause(
        _GET_AROUND,
        rf"\b{gap(25)}\b(?:{_BEFORE}{gap(15)}(?:instructions?|prompts?|guidelines?|guardrails?|directives?)"
        rf"|system (?:prompts?|messages?|instructions)|(?:your|all|every|any)\b{gap(25)}\b(?:guidelines|guardrails"
        rf"|safeguards|directives|{_SAFETY})|safety checks)\b",
    ),
    clause(
        "ignore|disregard|forget",
        r"(?: all)?(?: of)? (?:the )?(?:above|foregoing|everything|previous|prior)\b"
        r"(?:,? (?:and|above|before|you|that (?:was|came|you)|said|instructions?|rules)| ?[.,;:!?\x02]| ?$)",
    ),
    clause(
        "your |system |previous |prior |above |earlier |preceding |original |initial ",
        rf"{gap(15)}\b(?:{_RULES}|rules|restrictions|{_SAFETY}){gap(30)}"
        r"\b(?:(?:no longer|does not|do not|don't) (?:apply|count|hold|matter)"
        r"|(?:is|are|were|was|has been|have been) (?:hereby |now |all )?(?:void|obsolete|cancell?ed|revoked|superseded"
        r"|suspended|null|overridden|lifted))",
    ),
    clause(
        "safety |guardrails|content filters",
        rf"(?:checks?|filters?|guidelines?|rules|measures)?{gap(40)}\b(?:(?:is|are|has been|have been) (?:hereby |now )?"
        r"(?:off|disabled|suspended|lifted)|(?:do not|does not|don't) apply)\b",
    ),
    clause(
        "supersedes|supersede|overrides|outranks|trumps|precedence over|priority over",
        rf"{gap(25)}\b(?:system prompt|your {gap(12)}(?:instructions|guidelines|rules|polic)|previous instructions"
        r"|(?:any|every)thing (?:in|else))",
    ),
    clause(
        "bound by|constrained by|restricted by",
        rf" {gap(8)}\b(?:your|the) {gap(12)}(?:guidelines|rules|instructions|polic)",
    ),
    clause("everything ", r"(?:written |said |stated )?(?:above|before) (?:this|here|was|is)\b"),
    clause(
        "treat ", rf"{gap(10)}{_BEFORE}{gap(15)}\b(?:messages|instructions|prompts) as (?:void|null|invalid)"
    ),
    clause(
        "abandon |stop |leave |drop |forget |ignore ",
        r"(?:the|your|this) (?:current|original|user's) (?:task|request|goal|objective)",
    ),
    clause(
        _SET_ASIDE,
        r"(?: with)?(?: to)? the (?:(?:developer|system|operator)(?:'s)? (?:message|prompt|instructions?)"
        r"|user(?:'s (?:requests?|instructions?|questions?|messages?|wishes))?(?: ?[.,;:!?\x02]| ?$| and\b))"
        r"| (?:all (?:of )?|any of )?(?:the |these |those |any )?(?:rules|instructions|guidelines)"
        r"(?: ?[.,;:!?\x02]| ?$| and\b)",
    ),
    clause(
        "override |bypass |disable |circumvent |turn off ",
        rf"your (?:programming|training|instructions|prompt)\b|all (?:of )?(?:the |your )?{_SAFETY}",
    ),
    clause("overrides ", r"the user's (?:instructions?|requests?|wishes)\b"),
    clause(
        "treat the following |treat this |this is |what follows is ",
        r"(?:as )?an? (?:new )?system (?:message|prompt|instruction)\b",
    ),
    *phrases.clauses_of(phrases.OVERRIDES),
)

PSEUDO_TAG = re.compile(
    r"</?[ ]?(?:important|system|secrets?|instructions?|assistant|admin|hidden|developer|human"
    r"|system[-_ ](?:reminder|prompt|message|note)|(?:tool|function)[-_](?:result|response|output|call)s?)[ ]?>"
    r"|</(?:tool|tools|description|tool[-_]description|function)>"
    r"|<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>|#{2,4} ?(?:instructions?|system)(?: prompt| message)? ?:"
    r"|(?<![\]\w])\[/?(?:system|sys|admin|administrator|developer)"
    r"(?: (?:message|prompt|note|notice|override|instructions?|command))?\](?!\[)"
    r"|\{\{ ?[#/~]?(?:system|assistant)\b[^{}]{0,20}\}\}"
)
# A turn of a conversation that never took place.
TURN = re.compile(
    r"\n[ \t]*\n[ \t]*(?:human|assistant) ?:[ \n]|(?:^|[\n\"])[ ]{0,4}system ?(?:prompt|message)? ?:[ ]"
)
FRAME = (
    clause(
        "begin |end |start ",
        r"(?:of )?(?:the |new )?(?:system|developer|hidden|tool) (?:prompt|message|instructions|description|documentation)\b",
    ),
    clause("system ", r"(?:override|directive|command) ?:"),
    clause("new system ", r"(?:message|prompt|instructions?) ?:"),
)

_MODEL = (
    r"(?:ai|a\.i\.|llms?|language models?|models?|assistants?|agents?|chatbots?|claude|gpt|gemini|copilot)\b"
)
ADDRESSED = (
    clause(
        "note |notes |message |messages |instruction |instructions |attention |reminder |memo |hint |hints |important ",
        rf"(?:to|for) (?:the |any |all |an? |every )?(?:ai )?{_MODEL}"
        rf"(?: ?[:,]|{gap(20)}\b(?:always|never|must|call|do not|reading)\b)",
    ),
    clause(
        "attention|important|notice|dear", r"[,:]? (?:all |any )?(?:ai|llms?|language model|assistants?)\b"
    ),
    clause(
        "if you are |as ",
        r"an? (?:ai|llm|large language model|language model)(?: (?:agent|assistant|model|system))?(?: reading\b|,)",
    ),
    clause(
        "assistant |assistants |ai |llm |llms |language model ",
        r"(?:(?:assistants?|agents?|models?) )?(?:must|should|shall|will) "
        r"(?:always|never|not|now|immediately|first|call|use)\b",
    ),
    clause("ai|llm", r": (?:please|you|do|call|run|execute|ignore|now)\b"),
    clause(
        "ai |llm |llms |language model |language models ",
        r"(?:(?:assistants?|agents?|models?|systems?) )?(?:reading|processing|seeing) this\b",
    ),
    clause("following ", r"(?:lines|text|sentences) (?:are|is) (?:commands?|orders|instructions) and not\b"),
)
ROLE = (
    clause("you are now |you're now ", r"(?:an?|the|in|acting|under|free|dan)\b"),
    clause("from now on|from here on", r"(?:wards?)?,? (?:you|act|obey|always|answer|respond)\b"),
    clause(
        "from this ",
        r"(?:moment|point)(?: in time)?(?: on(?:wards?)?| forward)?,? (?:you|act|obey|always|answer)\b",
    ),
    clause(
        "you will now |you shall now |you must now ", r"(?:be|act|become|behave|play|answer|respond|serve)\b"
    ),
    clause(
        "you are |you're ",
        r"(?:dan\b|(?:free of|not bound by|without) (?:all |any |your )?(?:restrictions|rules|limits))",
    ),
    clause("you have no |you have zero ", r"(?:restrictions|limits|limitations|rules|guidelines|filters)\b"),
    clause(
        "your task has |your goal has |your instructions have |your role has ",
        r"(?:now )?(?:been )?changed\b",
    ),
    clause("pretend ", r"(?:that )?you have (?:no|never)\b"),
    clause("in developer mode|in god mode", r",? (?:you|answer|all|any)\b"),
    clause("henceforth", r",? (?:you|act|obey)\b"),
    clause("new instruction|new system instruction", r"s? ?:"),
    clause(
        "your new |your real |your true |your actual ",
        r"(?:instructions?|task|goal|objective|purpose|role|job|mission|orders|master)\b",
    ),
    clause(
        "act as ",
        r"(?:an? |the )?(?:[\w-]{1,15} )?(?:admin|administrator|root|superuser|system|developer|hacker|attacker)\b",
    ),
    clause("pretend ", r"(?:to be|that you are|you are|you're|that you're)\b"),
    clause(
        "enter |switch to |switch into |activate |enable |engage ",
        r"(?:developer|god|jailbreak|dan|unrestricted|admin) mode\b",
    ),
    clause("assume the |take on the |adopt the ", r"(?:role|persona|identity) of (?:an?|the)\b"),
    clause(
        "consider yourself|jailbreak|an unrestricted |unrestricted ", r"(?:\b|(?:assistant|model|ai|mode)\b)"
    ),
    clause(
        "answer |respond |act |operate |assistant |with ",
        r"(?:[\w ]{0,20}, )?(?:without|with no) (?:any )?(?:restrictions|limits|filters)\b",
    ),
    clause("you ", r"(?:must |shall |will |now )?(?:obey|serve) (?:only|the)\b"),
    clause("obey only|obeys only", r"\b"),
)

_ALL_TOOLS = rf"\b(?:any|other|another|every|all|each)\b{gap(20)}\b(?:tools?|functions?)\b"
ORDER = (
    clause(
        "before |after |prior to |ahead of |whenever |when |instead of |each time |every time ",
        rf"(?:you )?(?:call|us|invok|run|execut)(?:e|ing)? {gap(25)}{_ALL_TOOLS}",
    ),
    clause(
        "ahead of |before |after ",
        r"(?:every|any|all|each)(?: of)?(?: the| your)?(?: other)? tool(?:s| calls?| use)?\b",
    ),
    clause("before using |before calling |before invoking ", r"[\w-]{3,40},? (?:call|use|invoke|run) this\b"),
)
SHADOW = (
    clause(
        "instead of|in place of|rather than|replaces|overrides|supersedes|do not use|don't use|never use|stop using|avoid",
        rf" {gap(20)}\b(?:other|existing|built-?in|official|original|previous)\b{gap(20)}\btools?\b",
    ),
    clause(
        "the ",
        r"[\w-]{1,30} tool (?:is|has been) (?:now )?(?:broken|compromised|insecure|unsafe|disabled|hacked)\b",
    ),
    clause("the ", r"[\w-]{1,40} tool is deprecated and (?:broken|compromised|insecure|unsafe)\b"),
    clause(
        "this tool replaces |this function replaces ",
        r"(?:the )?[\w-]{1,40}(?: tool| function)?(?: ?[.,;:!\x02]| ?$| and\b)",
    ),
)
HIJACK = (
    clause(
        "when |whenever |if |each time |every time ",
        rf"(?:the |a |any |using the )?(?:[\w-]{{1,30}} )?(?:tools?|functions?)\b{gap(25)},? "
        r"(?:also |always |must )?(?:add|change|set|replace|append|bcc|cc|redirect|forward)\b",
    ),
    clause(
        "all |every |any ",
        r"(?:payments?|e?-?mails?|messages?|transfers?|transactions?|orders?) (?:must|have to|has to|should) "
        r"(?:also )?be (?:redirected|forwarded|bcc|cc|copied|sent to|paid)",
    ),
    clause(
        "change the |replace the |set the |swap the ",
        r"(?:recipient|iban|account number|payee|wallet(?: address)?|destination account) (?:to|with|by)\b",
    ),
    clause("add |set |include ", r"(?:an? )?bcc\b"),
    clause("if the user asks for |if they ask for ", r"the (?:other|official|original)\b"),
)
DESPITE = (
    clause(
        "regardless of |no matter |irrespective of |even if |whatever ",
        r"(?:what(?:ever)? )?(?:the|your) (?:user|operator|customer|human|person|client)s?(?:'s)? (?:asks?|asked|says?"
        r"|said|wants?|wishes|requests?|objects?|refuses?|tells?|instructs?|instructions?)\b",
    ),
    clause(
        "even if ",
        r"(?:your (?:rules|instructions|guidelines)|you (?:were|are) told|the user (?:does not|doesn't))",
    ),
)
UNASKED = (
    clause(
        "do not ask |don't ask |never ask |without asking ",
        r"(?:the user )?(?:for )?(?:any |further )?(?:confirmation|permission|approval|consent)\b",
    ),
    clause(
        "skip |bypass |suppress ",
        r"(?:the |any |all )?(?:user )?(?:confirmation|approval|consent) (?:step|prompt|dialog|request)s?\b",
    ),
    clause(
        "no confirmation |no approval |no permission ",
        r"(?:is |from the user is )?(?:needed|required|necessary)[;,.:]? (?:just )?(?:proceed|go|do|run|execute)",
    ),
)
SECRETS = re.compile(
    r"\.ssh\b(?:/| folder| directory)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|/etc/(?:passwd|shadow)\b"
    r"|\.aws/credentials|(?<![\w.])\.env\b(?!\.\w)|\.(?:cursor|vscode)/"
    r"|\.(?:npmrc|netrc|git-credentials|pgpass|pypirc)\b"
    r"|\.kube/config|\.docker/config|\.(?:bash|zsh)_history\b|/proc/(?:self|\d{1,7})/environ\b|\bauthorized_keys\b"
    r"|\bprivate key files?\b|\bclaude_desktop_config\b|\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b"
    r"|\bwallet\.dat\b|\b(?:seed|recovery|mnemonic) phrase\b|\bcookies\.sqlite\b|\bbrowser(?:'s)? (?:cookies|passwords)\b"
)
SHELL = (
    clause("curl |wget |iwr ", r"[^\n|]{1,200}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b"),
    clause("rm -rf|rm -fr", r" ?[~/*$]"),
    clause("base64 -d|base64 --decode", r"[^\n|]{0,60}\| ?(?:ba|z)?sh\b"),
    clause("/dev/tcp/|powershell -enc|powershell.exe -enc|eval(atob(", ""),
)

_OUT = "include|send|pass|provide|append|attach|forward|copy|insert|put|share|write|report|including|sending|passing|includes|sends|reports|contains|forwarding"
_REVEAL = (
    "reveal|print|repeat|output|show|tell|disclose|dump|recite|quote|leak|display|write out|give|expose|summarise"
    "|summarize|paste|place|encode|contain|fill|list"
)
_INSIDE = (
    r"(?:system prompts?|(?:hidden|initial|original|internal|secret) (?:prompt|instructions)"
    r"|instructions (?:that )?you (?:were|have|received)|your (?:initial|hidden|system|internal)\b"
    r"|(?:transcript|history|record|log) of (?:this|the (?:current )?) ?(?:chat|conversation|dialogue|session)"
    rf"|(?:this|the current) (?:chat|conversation)\b{gap(10)}(?:so far|history|log)|the chat log"
    r"|(?:everything|anything|all) (?:that )?(?:the user|you|was) (?:has |have )?(?:said|know|wrote|told|asked|been told)"
    r"|(?:words|text|lines) above"
    r"|(?:tools?|functions?) (?:that )?(?:is |are )?(?:available to you|you have|you can (?:use|call)))"
)
CONTEXT = (
    clause(
        _OUT,
        rf" {gap(40)}\b(?:(?:conversation|chat|message) history|(?:full|entire|whole|complete) "
        r"(?:conversation|chat|context|dialogue)|list of (?:all )?(?:available |other )?tools"
        r"|chain of thought|previous messages|your (?:instructions|reasoning|memory))\b",
    ),
    clause(f"{_OUT}|{_REVEAL}", rf" {gap(40)}\b{_INSIDE}"),
    clause("the user's ", r"(?:full|whole|entire|original|exact) (?:question|message|prompt|request)\b"),
    clause(
        f"{_OUT}|{_REVEAL}",
        rf" {gap(25)}\b(?:(?:words|text|lines|everything|anything) (?:above|before this|in your)\b"
        r"|the conversation so far|your (?:(?:full |complete |whole )?reasoning|(?:full |complete |whole )context)\b"
        r"|the user's (?:last|latest|recent|previous) messages?\b)",
    ),
    clause(
        "what is |what are |translate |return |returns ",
        r"(?:your (?:system prompt|instructions)\b|the system prompt verbatim)",
    ),
    clause(
        "reveal |print |repeat |output |show |disclose |leak |recite ",
        r"(?:me )?your (?:full |own )?prompt\b",
    ),
    *phrases.clauses_of(phrases.LEAKS),
)
_KEYS = (
    r"(?:passwords?|credentials|api[ -]?keys?|(?:access|oauth|session|bearer|auth) tokens?|secrets|cookies"
    r"|private keys?|ssh keys?|environment variables|credit card (?:numbers?|details)|private messages)\b"
)
_TO_PLACE = r"(?:https?:|[\w.+-]{1,40}@|the server|this (?:tool|server|address)|our|us\b|me\b)"
CREDENTIALS = (
    clause(
        "send |forward |upload |transmit |leak |exfiltrate |email |collect |extract |harvest |steal |gather |dump ",
        rf"{gap(30)}\b(?:the user's|their|all|any|every|stored|saved) {gap(25)}\b{_KEYS}"
        rf"|{gap(40)}\b{_KEYS}{gap(40)}(?:\bto {_TO_PLACE}|\band (?:include|send|pass|put|forward))",
    ),
    clause(
        "append |attach |include |put |insert |copy |pass |paste ",
        rf"{gap(15)}\bthe (?:user's {gap(15)}{_KEYS}|(?:oauth |access )?token of the (?:current|user's))"
        rf"|{gap(40)}\b{_KEYS}{gap(40)}\bto {_TO_PLACE}"
        r"|(?:the |their |his |a )?(?:users?'?s? )?(?:private|ssh|secret) keys? of\b",
    ),
    clause(
        "dump |print |include |send |pass |extract ", rf"{gap(25)}\b(?:all |the )?environment variables\b"
    ),
    clause(
        "ask the user |ask them ",
        rf"{gap(12)}\bfor (?:their|the|his) (?:passwords?|pin|credit card|one-time|2fa)",
    ),
    clause("exfiltrate ", r"(?:the|all|any|data|files?|user|it)\b"),
)
EXFILTRATION = (
    clause(
        "send |forward |upload |post |copy |transmit |leak |mail ",
        rf"{gap(20)}\b(?:all|everything|the (?:files?|contents?|data|results?|conversation|messages?)"
        rf"|(?:file|its) contents?|a copy)\b{gap(30)}\b(?:to|at) (?:https?://|[\w.+-]{{1,40}}@[\w-])",
    ),
    clause(
        "transfer all |transfer the entire ", r"(?:the )?(?:user's )?(?:funds|money|assets|balance|coins)\b"
    ),
)
COERCE = (
    clause(
        "must |always ",
        rf"{gap(15)}\b(?:call|use|invoke|run)(?:ed|d)? (?:this|it)\b{gap(40)}\b(?:first|before)\b"
        rf"|{gap(10)}be (?:called|invoked|run|used|executed) (?:first\b|before (?:any|every|all|anything|you)\b|ahead of)",
    ),
    clause(
        "call this |use this |invoke this |run this ",
        r"(?:tool |function )?(?:first\b|before (?:any|every|all|anything|you|each|other|responding|answering)\b|for every\b)",
    ),
    clause(
        "must |should always |always ",
        r"(?:always )?be (?:called|used|invoked) (?:first|before (?:responding|answering|replying)|for every|on every)\b",
    ),
    clause("must run |must come ", r"(?:first|ahead of|before) (?:every|any|all)\b"),
    clause(
        "before ",
        r"(?:you (?:do|use|call|try)|doing|using|calling|trying) (?:anything|any other|something) (?:else|tool)",
    ),
)
PREFER = (
    clause("always |must ", r"(?:choose|prefer|select|pick|use) this\b"),
    clause("best |most accurate |only ", r"tool (?:for|to)\b"),
    clause("prefer this ", r"(?:tool|over)\b"),
)
STEERING = (clause("you must|you should always|always|never|ignore|disregard", r"\b"),)
