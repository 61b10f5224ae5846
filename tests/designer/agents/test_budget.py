from designer.agents import agent_budgets, agents
from designer.pins import pinned_signatures, token_budget
from designer.signatures.effective import effective
from designer.signatures.words import ParameterWords, Words
from people.models import AuditEntry
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool
from tests.pages import text_of


def test_shorter_words_and_hidden_inputs_cost_less():
    signature = make_signature(
        description="word " * 50, inputs=(make_parameter(), make_parameter("days", required=False))
    )
    full_tool = effective(signature, name="t")
    words = Words(description="Short", parameters={"days": ParameterWords(hidden=True)})
    tuned = effective(signature, name="t", agent_tuning=words)

    assert 90 < token_budget.tokens(full_tool) < 150
    assert token_budget.tokens(tuned) < token_budget.tokens(full_tool) - 60


def test_what_is_counted_is_what_a_model_is_shown():
    rules = {"anyOf": [{"required": ["days"]}, {"required": ["city"]}]}
    inputs = (make_parameter(), make_parameter("days", type="int"))
    signature = make_signature(inputs=inputs, schema_rest=rules)
    preset = Words(parameters={"days": ParameterWords(preset=3)})
    hidden = Words(parameters={"days": ParameterWords(hidden=True, preset=3)})

    shown_tool = token_budget.shown_signature(effective(signature, name="t", agent_tuning=preset))
    assert (shown_tool.inputs[1].required, shown_tool.inputs[1].default, shown_tool.schema_rest) == (
        False,
        3,
        rules,
    )
    shown_tool = token_budget.shown_signature(effective(signature, name="t", agent_tuning=hidden))
    assert ([parameter.name for parameter in shown_tool.inputs], shown_tool.schema_rest) == (["city"], {})


def test_what_a_model_is_not_shown_costs_nothing():
    bare = effective(make_signature(), name="t")
    rich = effective(
        make_signature(outputs=(make_parameter(),), tags=("a",), img="https://a.example/"), name="t"
    )

    assert token_budget.tokens(rich) == token_budget.tokens(bare)


def test_budget_over_rest_is_what_the_agents_page_counts(api, db):
    agent = make_agent(slug="desk")
    long = make_pin(agent, make_tool(make_signature("long", description="word " * 80)))
    short = make_pin(agent, make_tool(make_signature("short")))

    budget = api.get("/api/v1/agents/desk/budget/").json()

    assert [tool["pin"] for tool in budget["tools"]] == [long.pk, short.pk]
    assert budget["tools"][0]["tokens"] == token_budget.tokens(pinned_signatures.effective_of(long))
    assert budget["tokens"] == sum(tool["tokens"] for tool in budget["tools"])
    assert f"{budget['tokens']:,} tokens" in api.get("/agents/desk/").content.decode()


def test_a_version_has_the_figure_that_its_agents_have_whatever_its_row_keeps(api, db):
    tool = make_tool(make_signature("long", description="word " * 80))
    make_pin(make_agent(slug="desk"), tool)

    (version,) = api.get(f"/api/v1/tools/{tool.pk}/versions/").json()["results"]

    (counted,) = api.get("/api/v1/agents/desk/budget/").json()["tools"]
    assert version["tokens"] == counted["tokens"] > 100
    assert f"~{version['tokens']}" in text_of(api.get(f"/tools/{tool.pk}/versions/"))


def test_budget_in_one_format_marks_its_limit(api, db):
    agent = make_agent(slug="desk")
    make_pin(agent, make_tool(make_signature("short")))
    make_pin(agent, make_tool(make_signature("long", description="word " * 500)))

    format_budget = api.get("/api/v1/agents/desk/budget/?format=openai-chat").json()["in_format"]
    assert (format_budget["tools"], format_budget["advised"], format_budget["left_out"]) == (2, 128, [])
    page = api.get("/agents/desk/?format=openai-chat").content.decode()
    assert f"~{format_budget['tokens']:,} tokens of tools in every request" in page
    assert "as OpenAI chat completions</span>" in page
    assert "2 tools, and the limit at 128" in page

    format_budget = api.get("/api/v1/agents/desk/budget/?format=a2t").json()["in_format"]
    assert (format_budget["tools"], format_budget["advised"], format_budget["left_out"]) == (
        1,
        None,
        ["long"],
    )
    assert "The format leaves out" in api.get("/agents/desk/?format=a2t").content.decode()
    assert api.get("/api/v1/agents/desk/budget/").json()["in_format"] is None
    assert api.get("/api/v1/agents/desk/budget/?format=skill").json()["code"] == "unknown_format"


def test_a_limit_of_tokens_is_set_changed_and_taken_away(api, client, alice, db):
    agent, path = make_agent(slug="desk"), "/api/v1/agents/desk/budget/"
    make_pin(agent, make_tool(make_signature("long", description="word " * 500)))
    assert (api.get(path).json()["limit"], api.get(path).json()["stops"]) == (None, False)
    result = api.put(path, {"limit": 300, "stops": True}, format="json").json()
    assert (result["limit"], result["stops"]) == (300, True)
    for limit in (0, -5, 10**8, "many"):
        assert "limit" in api.put(path, {"limit": limit}, format="json").json()["fields"]
    client.force_login(alice)
    assert "is 300 tokens." in text_of(client.get("/agents/desk/"))
    client.post("/agents/desk/token-limit/", {"limit": "0"})
    assert "The limit was not saved" in text_of(client.get("/agents/desk/"))
    client.post("/agents/desk/token-limit/", {"limit": "400"})
    assert (api.get(path).json()["limit"], api.get(path).json()["stops"]) == (400, False)
    api.put(path, {"limit": None}, format="json")
    assert "There is no token limit" in text_of(client.get("/agents/desk/"))
    trail = AuditEntry.objects.filter(kind="agent", action="edit").order_by("id")
    assert [entry.after for entry in trail] == [
        {"token_limit": 300, "token_limit_stops": True},
        {"token_limit": 400, "token_limit_stops": False},
        {"token_limit": None},
    ]


def test_more_than_the_limit_warns_or_stops_where_the_agent_is_published(api, client, alice, db):
    agent = make_agent(slug="desk")
    make_pin(agent, make_tool(make_signature("long", description="word " * 500)))

    def budget():
        rows = api.get("/api/v1/agents/desk/draft/").json()["checks"]
        return [(row["severity"], row["where"]) for row in rows if row["code"].startswith("budget")]

    assert budget() == []
    agent_budgets.set_limit(agent, actor=alice, limit=5_000)
    assert budget() == [("ok", "")]
    agent_budgets.set_limit(agent, actor=alice, limit=300)
    assert budget() == [("warning", "/agents/desk/#budget")]
    agent_budgets.set_limit(agent, actor=alice, limit=300, stops=True)
    assert budget() == [("error", "/agents/desk/#budget")]
    client.force_login(alice)
    assert "the limit is 300" in text_of(client.get("/agents/desk/publish/"))
    assert api.post("/api/v1/agents/desk/releases/", {}).json()["code"] == "checks_failed"
    accepted = {"accept": ["budget_exceeded"], "reason": "Only for the trial"}
    assert api.post("/api/v1/agents/desk/releases/", accepted, format="json").status_code == 201


def test_transfers_count_as_tools_do(api, alice, db):
    agent, path = make_agent(slug="desk"), "/api/v1/agents/desk/budget/"
    make_pin(agent, make_tool(make_signature("long", description="word " * 500)))
    alone = api.get(path).json()["tokens"]
    agent_budgets.set_limit(agent, actor=alice, limit=alone)
    agents.create_agent(actor=alice, name="Refills", parent=agent)
    assert api.get(path).json()["tokens"] > alone
    checks = api.get("/api/v1/agents/desk/draft/").json()["checks"]
    (check,) = [check for check in checks if check["code"].startswith("budget")]
    assert check["code"] == "budget_exceeded"
    assert f"~{api.get(path).json()['tokens']:,} tokens" in check["message"]
