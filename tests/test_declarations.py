"""A label, a help text and a limit are stated once: in the model, or in a field that belongs to no model.

Forms and inputs of REST derive from it, so few form fields are declared again in a serializer.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 15
# The modules of REST with the inputs of the same resources.
SERIALIZERS = {
    "people/forms.py": "people/api/users.py people/api/trail.py",
    "catalog/forms/__init__.py": "catalog/api/vendors.py catalog/api/endpoints.py catalog/api/credentials.py "
    "execution/api/endpoint_secrets.py",
    "catalog/forms/client_fields.py": "catalog/api/credentials.py",
    "catalog/forms/definition_fields.py": "catalog/api/definitions.py",
    "catalog/forms/definition_list_fields.py": "catalog/api/definitions.py",
    "catalog/forms/policy_fields.py": "catalog/api/endpoints.py",
    "catalog/forms/reach_fields.py": "catalog/api/endpoints.py",
    "catalog/forms/retry_fields.py": "catalog/api/retries.py",
    "catalog/forms/vendor_request_fields.py": "catalog/api/vendor_requests.py",
    "catalog/forms/word_group_fields.py": "catalog/api/word_groups.py",
    "designer/forms/agents.py": "designer/api/agents.py designer/api/agent_files.py designer/api/budgets.py",
    "execution/forms/argument_forms.py": "execution/api/calls.py",
    "designer/forms/environments.py": "designer/api/environments.py",
    "designer/forms/keys.py": "designer/api/keys.py",
    "designer/forms/mocks.py": "designer/api/mocks.py",
    "designer/forms/pins.py": "designer/api/pins.py execution/api/configurations.py",
    "designer/forms/procedures.py": "designer/api/procedures.py",
    "designer/forms/rehearsals.py": "designer/api/rehearsals.py designer/api/judges.py",
    "designer/forms/releases.py": "designer/api/releases.py designer/api/channels.py "
    "designer/api/retirements.py",
    "designer/forms/removals.py": "designer/api/removals.py",
    "designer/forms/teams.py": "designer/api/teams.py",
    "designer/forms/transfers.py": "designer/api/transfers.py",
    "designer/forms/translations.py": "catalog/api/translations.py designer/api/translations.py",
    "designer/forms/words_form.py": "designer/api/tunings.py",
    "designer/news/notification_forms.py": "designer/api/notifications.py",
    "execution/forms/activity_fields.py": "execution/api/activities.py",
}
DERIVED = ("form_field", "input_field", "password_field")
OWN = {"label", "help_text", "max_length", "min_length", "min_value", "max_value", "choices"}
INPUTS = ("Input", "Change", "Patch", "Filter", "Query")


def has_own_words_or_limits(call: ast.Call) -> bool:
    """Return whether a field states something that is not read from the field of a model."""
    if ast.unparse(call.func) in DERIVED:
        return False
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in OWN)]
    return any("_meta" not in ast.unparse(value) for value in values)


def declared_fields(path: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield class and name of each field that the classes of a module declare themselves."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if not isinstance(node, ast.ClassDef) or not node.name.endswith(suffixes):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                target = statement.targets[0]
                if isinstance(target, ast.Name) and has_own_words_or_limits(statement.value):
                    yield node.name, target.id


def declared_again() -> list[str]:
    fields = []
    for form_module, api_modules in SERIALIZERS.items():
        inputs = {name for path in api_modules.split() for _, name in declared_fields(path, INPUTS)}
        forms = declared_fields(form_module, ("Form",))
        fields += [f"{form}.{name}" for form, name in forms if name in inputs]
    return fields


def test_few_form_fields_are_declared_again_in_a_serializer():
    fields = declared_again()
    assert len(fields) <= MOST, fields


def test_each_module_of_forms_is_compared():
    modules = {
        str(path.relative_to(ROOT))
        for app in ("people", "catalog", "designer", "execution")
        for path in (ROOT / app).rglob("*.py")
        if "class" in (text := path.read_text()) and "Form(" in text and "OperationForm):" in text
    }
    assert modules <= SERIALIZERS.keys()
