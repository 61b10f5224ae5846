"""Forms about users, and the base class of all forms. The rules are in `people.users`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.forms.utils import pretty_name
from django.http import HttpRequest, QueryDict
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core.errors import DomainError
from core.stored_sentences import translate_sentence
from people import audit, login_lockout, users
from people.audit import Doer
from people.audit.edit_conflicts import ANY_STATE, Difference, Facts, LateEditError, etag
from people.models import Role, User
from people.permissions import person


@contextmanager
def show_errors(request: HttpRequest) -> Iterator[None]:
    """Show an error of the operation inside as a message of the next page, and continue after it."""
    try:
        yield
    except DomainError as error:
        messages.error(request, error.message)


class OperationForm(forms.Form):
    """A form whose rules are in an operation. The form shows an error of the operation beside its field."""

    late: LateEditError | None = None
    expected = ANY_STATE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("label_suffix", "")
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if field.label is None:
                field.label = _(pretty_name(name))

    def edits(self, facts: Facts) -> None:
        """Set the state that is edited. The page submits its name, so that a late edit is detected."""
        self.expected = self.data.get("expected", ANY_STATE) if self.is_bound else etag(facts)

    @property
    def status(self) -> int:
        """The HTTP status of the page that shows this form."""
        return 409 if self.late else 200

    @contextmanager
    def catch_errors(self) -> Iterator[None]:
        """Add an error of the operation inside to the form, and continue after it."""
        try:
            yield
        except DomainError as error:
            self.refuse(error)

    def refuse(self, error: DomainError) -> None:
        """Add the error of the operation to the form, each sentence to its field."""
        if isinstance(error, LateEditError):
            # Fields that this user did not change now show the values of the other user.
            self.late, self.expected = error, error.state
            self.data = data = cast(QueryDict, self.data).copy()
            for difference in error.differences:
                name = self.field_for(difference.path)
                if name in self.fields and error.knows_before and difference.yours == difference.before:
                    value = self.field_value(name, difference.theirs)
                    if isinstance(self.fields[name], forms.ModelMultipleChoiceField):
                        data.setlist(name, cast(list[str], value))
                    else:
                        _set_value(data, name, value)
            return
        field_errors = {name: sentence for name, sentence in error.fields.items() if name in self.fields}
        for sentence in dict.fromkeys((error.message, *error.fields.values())):
            if sentence not in field_errors.values():
                self.add_error(None, translate_sentence(sentence))
        for name, sentence in field_errors.items():
            self.add_error(name, translate_sentence(sentence))

    def field_for(self, path: str) -> str:
        """Return the name of the field for a member of the facts."""
        return path

    def field_value(self, name: str, value: object) -> object:
        """Return the value of the field for a value of the facts."""
        return value

    def late_rows(self) -> list[tuple[str, Difference]]:
        labels = {name: str(field.label or name.capitalize()) for name, field in self.fields.items()}
        rows = [
            (labels.get(self.field_for(difference.path)), difference)
            for difference in (self.late.differences if self.late else ())
        ]
        return [(label or difference.path.replace("_", " "), difference) for label, difference in rows]


def _set_value(data: QueryDict, name: str, value: object) -> None:
    """Set the value as a browser would submit it."""
    match value:
        case None | False:
            data.pop(name, None)
        case True:
            data[name] = "on"
        case list():
            data[name] = "\n".join(map(str, value))
        case _unused:
            data[name] = str(value)


def form_field(field: "models.Field[Any, Any]", **options: Any) -> Any:
    """Return the form field of a model's field: label, help text, choices, and the limits of a number."""
    if isinstance(field, models.IntegerField) and not field.choices:
        for validator in field.validators:
            if isinstance(validator, MinValueValidator):
                options.setdefault("min_value", validator.limit_value)
            elif isinstance(validator, MaxValueValidator):
                options.setdefault("max_value", validator.limit_value)
    # The operation explains what is wrong with a slug.
    formfield = models.CharField.formfield if isinstance(field, models.SlugField) else type(field).formfield
    # A default that is a function would add a hidden field.
    return formfield(field, show_hidden_initial=False, **options)


class ModelOperationForm(OperationForm, forms.ModelForm):  # type: ignore[type-arg] # not generic at run time
    """A form with fields of a model. The operation validates and saves the row."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "Meta" in vars(cls):
            cls.Meta.formfield_callback = form_field  # type: ignore[attr-defined]

    def _post_clean(self) -> None:
        """Skip Django's validation of the row."""


class SignInForm(AuthenticationForm):
    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": gettext_lazy("There is no active account with this name and password."),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("label_suffix", "")
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name"


class ExplainedChoiceField(forms.ChoiceField):
    """Radio buttons with an explanation of each choice, rendered by people/_choices.html."""

    widget = forms.RadioSelect

    def __init__(
        self, explained_choices: Sequence[tuple[str, str | Promise, str | Promise]], **kwargs: Any
    ) -> None:
        super().__init__(choices=[(value, word) for value, word, _unused in explained_choices], **kwargs)
        self.explained = explained_choices


ROLES = [
    (Role.VIEWER, Role.VIEWER.label, gettext_lazy("Reads everything, changes nothing.")),
    (Role.DESIGNER, Role.DESIGNER.label, gettext_lazy("Also builds agents: tools, texts and releases.")),
    (
        Role.ADMIN,
        Role.ADMIN.label,
        gettext_lazy("Also connects vendors, reviews changes and looks after people."),
    ),
]


def password_field(label: str | Promise) -> Any:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return form_field(users.PASSWORD, label=label, strip=False, widget=widget)


class FirstAdministratorForm(ModelOperationForm):
    code = forms.CharField(
        max_length=40,
        label=gettext_lazy("Code"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "autofocus": True}),
    )
    password = forms.CharField(
        max_length=256, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    field_order = ("code", "username", "password")

    class Meta:
        model = User
        fields = ("username",)
        widgets = {"username": forms.TextInput(attrs={"autocomplete": "username"})}


class PersonForm(ModelOperationForm):
    role = ExplainedChoiceField(ROLES, initial=Role.VIEWER)
    password = password_field(gettext_lazy("Initial password"))

    class Meta:
        model = User
        fields = ("username", "name")


class PersonChangeForm(ModelOperationForm):
    role = ExplainedChoiceField(ROLES)
    field_order = ("name", "role", "is_active")

    class Meta:
        model = User
        fields = ("name", "is_active")


class PasswordForm(OperationForm):
    password = password_field(gettext_lazy("New password"))


class LinkForm(OperationForm):
    """A form that requires the user's own password: an unlocked screen is not enough. Tries are limited."""

    old = forms.CharField(
        label=gettext_lazy("Your password"),
        strip=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, person(request)

    def clean_old(self) -> str:
        password: str = self.cleaned_data["old"]
        if login_lockout.must_wait(self.request, self.user.username):
            raise forms.ValidationError(login_lockout.WAIT)
        if not self.user.check_password(password):
            login_lockout.note_failure(self.request, self.user.username)
            raise forms.ValidationError(_("This is not your password."))
        return password


class OwnPasswordForm(LinkForm):
    """A form for a new password, which requires the old one."""

    password = password_field(gettext_lazy("New password"))

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.fields["old"].label = _("Current password")


DOER = ":"  # no user name begins with it
DAY_INPUT = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


class AuditFilterForm(OperationForm):
    """A filter of the audit trail. The field `actor` selects one user, all users or all workers.

    Without any parameter the page shows what people did: a run of a worker may write thousands of entries.
    """

    q = form_field(audit.TEXT)
    actor = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(required=False)
    first_day = form_field(audit.FIRST_DAY, widget=DAY_INPUT)
    last_day = form_field(audit.LAST_DAY, widget=DAY_INPUT)

    def __init__(self, data: QueryDict, *, kinds: list[tuple[str, str]]) -> None:
        self.is_filtered = any(data.get(name) for name in self.base_fields)
        filter_names = self.base_fields.keys() & data.keys()
        super().__init__(data if filter_names else {"actor": f"{DOER}{Doer.PEOPLE}"})
        self.fields["kind"].choices = [("", _("Any kind")), *kinds]  # type: ignore[attr-defined]
        people = [(user.username, str(user)) for user in User.objects.all()]
        doers = [(f"{DOER}{doer.value}", doer.label) for doer in Doer]
        actors = [("", _("Anyone")), (_("All together"), doers), (_("One person"), people)]
        self.fields["actor"].choices = actors  # type: ignore[attr-defined]

    @property
    def query(self) -> str:
        """The filter as the query of an address, with empty fields: without any, it would be the default."""
        return urlencode({name: self.data.get(name, "") for name in self.fields})

    def clean(self) -> dict[str, Any]:
        first_day, last_day = self.cleaned_data.get("first_day"), self.cleaned_data.get("last_day")
        if first_day and last_day and first_day > last_day:
            self.add_error("last_day", _("Choose a day that is not before the first one."))
        return self.cleaned_data

    def filters(self) -> dict[str, Any]:
        """Return the arguments of `audit.entries`."""
        filters = dict(self.cleaned_data)
        actor: str = filters.pop("actor")
        if actor.startswith(DOER):
            return filters | {"by": actor.removeprefix(DOER)}
        return filters | {"actor": User.objects.filter(username=actor).first() if actor else None}
