"""The compose file is valid for the compose specification, and fits the image."""

import compose_spec
import pytest
import yaml


@pytest.fixture(scope="module")
def text(deploy):
    return (deploy / "compose/compose.yaml").read_text()


@pytest.fixture(scope="module")
def services(text):
    return yaml.safe_load(text)["services"]


def test_the_compose_specification_accepts_the_file(text):
    assert compose_spec.PyCompose.from_yaml(text).service_names() == ["migrate", "inboxd", "service"]


@pytest.mark.parametrize("right, wrong", [
    ("mem_limit:", "mem_limt:"), ("stop_grace_period: 30s", "stop_grace_period: soon"),
    ("condition: service_completed_successfully", "condition: completed"),
])
def test_the_compose_specification_refuses_errors(text, right, wrong):
    assert right in text
    with pytest.raises(ValueError):
        compose_spec.PyCompose.from_yaml(text.replace(right, wrong))


def test_built_and_mounted_files_exist(services, deploy, text):
    build = services["inboxd"]["build"]
    assert (deploy / "compose" / build["context"] / build["dockerfile"]).is_file()
    assert (deploy / "compose" / yaml.safe_load(text)["configs"]["inboxd"]["file"]).is_file()


def test_inboxd_is_locked_down(services):
    for name in ("migrate", "inboxd"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_handlers_can_access_the_socket(services, deploy):
    assert set(services["inboxd"]["volumes"]) == set(services["service"]["volumes"])
    assert services["service"]["depends_on"] == ["inboxd"]
    assert f"\nUSER {services['service']['user']}\n" in (deploy / "docker/Dockerfile").read_text()


def test_images_name_no_registry(services):
    assert not any("/" in service["image"] for service in services.values())
