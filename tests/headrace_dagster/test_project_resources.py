"""Tests of `headrace_dagster.project_resources`."""

from headrace_dagster import (
    EncodersResource,
)
from headrace_dagster.project_resources import EncoderSettings


def test_the_launchpad_shows_the_fields_of_the_encoders():
    schema = EncodersResource.to_config_schema().as_field()
    fields = schema.config_type.fields
    assert {*fields} == {"devices", "batch_seconds", "compile", "num_threads"}
    assert all(field.description for field in fields.values())
    assert {*EncoderSettings.model_fields} == {*fields}
