"""Values that several sections of the YAML share: names, URIs, variables, owners; no boolean in place of another."""

import pytest
from pydantic import ValidationError

from headrace.config.section import Name, Owner, Section, Uri, Variable, checked_name, checked_object, checked_uri


class Example(Section):
    name: Name = "a"
    uri: Uri = "a"
    variable: Variable = "A"
    owner: Owner = "team:a"
    number: int | None = None
    text: str = ""
    flag: bool = False


@pytest.mark.parametrize("uri", ["a/b", "~/x", "s3://bucket/a", "gs://b", "file:///a", "c:/x", "a b$1"])
def test_paths_and_urls_of_known_schemes_stay_as_they_are(uri):
    assert checked_uri(uri) == uri


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("$HOME/x", "environment variables are not expanded"),
        ("a/${X}", "environment variables are not expanded"),
        ("a\0b", "no NUL character"),
        ("FILE://~/x", "~ is not allowed in a URL"),
        ("ftp://x", "unknown URL scheme 'ftp'"),
        ("http://[x", "expected a path or a URL"),
    ],
)
def test_a_wrong_uri_is_an_error_that_says_why(uri, message):
    with pytest.raises(ValueError, match=message):
        checked_uri(uri)


@pytest.mark.parametrize("name", ["", "1a", "_a", "a-b", "a b", "ä"])
def test_a_name_is_a_letter_and_then_letters_digits_and_underscores(name):
    assert checked_name("aB_9") == "aB_9"
    with pytest.raises(ValueError, match="expected a letter"):
        checked_name(name)


@pytest.mark.parametrize("name", ["module", "module:", ":name", "a:b:c", "a-b:c"])
def test_an_object_has_a_module_and_a_name(name):
    assert checked_object("a.b:C") == "a.b:C"
    with pytest.raises(ValueError, match="expected module:object"):
        checked_object(name)


@pytest.mark.parametrize("field", ["number", "text", "name"])
@pytest.mark.parametrize("value", [True, False])
def test_true_and_false_are_values_of_flags_alone(field, value):
    assert Example(flag=value).flag is value
    with pytest.raises(ValidationError, match="true and false are not allowed here"):
        Example(**{field: value})


@pytest.mark.parametrize("wrong", [{"nam": "a"}, {"variable": "https://x"}, {"owner": "somebody"}])
def test_unknown_keys_addresses_and_wrong_owners_are_errors_that_do_not_show_the_value(wrong):
    with pytest.raises(ValidationError) as error:
        Example(**wrong)
    assert "input_value" not in str(error.value)
