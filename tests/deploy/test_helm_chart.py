"""The Helm chart, rendered by Helm's own engine and validated against the schemas of Kubernetes."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml

from pegboard.ops import metrics

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "deploy" / "helm" / "pegboard"
KUBERNETES_VERSIONS = ("1.25", "1.31", "1.37")
WORKLOADS = ("web", "runtimes", "worker", "slow", "caller", "beat")
# Variables of docker-compose.yml that contain secrets, and those that only the owner of the tables needs.
SECRETS = {
    "DATABASE_URL": "postgresql://pegboard_app:canary-app@db/pegboard",
    "DATABASE_REPLICA_URL": "postgresql://pegboard_app:canary-replica@replica/pegboard",
    "REDIS_URL": "redis://:canary-broker@broker:6379/0",
    "PEGBOARD_SECRET_KEY": "canary-signing-key",
    "PEGBOARD_KEYS": "k1:canary-encryption-key",
    "PEGBOARD_OIDC_CLIENT_SECRET": "canary-client",
    "PEGBOARD_SEARCH_MEANING_KEY": "canary-model",
    "PEGBOARD_MAIL_URL": "smtp://user:canary-mail@mail:587",
    "DJANGO_SUPERUSER_PASSWORD": "canary-person",
}
OWNER_SECRETS = {
    "DATABASE_URL": "postgresql://pegboard:canary-owner@db/pegboard",
    "POSTGRES_APP_PASSWORD": "canary-app",
}
EVERYTHING = {
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "secret": {"create": SECRETS},
    "ownerSecret": {"create": OWNER_SECRETS},
    "variables": {"PEGBOARD_KEYS_FILE": "/keys/keys", "PEGBOARD_PROXIES": 2},
    "volumes": [{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o440}}],
    "volumeMounts": [{"name": "keys", "mountPath": "/keys", "readOnly": True}],
    "podAnnotations": {"example.com/team": "catalog"},
    "podLabels": {"example.com/tier": "prod"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                }
            ]
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "high",
    "backup": {"persistence": {"storageClass": "fast"}},
    "service": {"type": "NodePort", "annotations": {"example.com/a": "b"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "360"},
        "host": "pegboard.example.org",
        "runtimesHost": "runtimes.example.org",
        "tlsSecret": "tls",
    },
    "autoscaling": {name: {"enabled": True} for name in ("web", "runtimes", "caller")},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "extraEgress": [{"to": [{"namespaceSelector": {}}], "ports": [{"port": 8080}]}],
    },
}
ODD = {
    "image": {"repository": "registry.example.com:5000/team/pegboard", "tag": "2026-11"},
    "variables": {
        "PEGBOARD_OIDC_ROLES": "catalog admins=admin; builders=designer",
        "PEGBOARD_OIDC_NAME": 'Ünïcode "quoted" {{ .Values }} # \\ \': - yes\n',
        "PEGBOARD_HTTPS": 1,
        "PEGBOARD_CALLS_PER_MINUTE": 12_000_000,
        "PEGBOARD_LOCAL_SIGN_IN": "0",
        "PEGBOARD_OUTBOUND_ALLOW": "10.20.0.0/16:443,8000-8100 fd12::/16",
        "PEGBOARD_MAIL_FROM": "",
    },
    "secret": {"create": {**SECRETS, "PEGBOARD_SECRET_KEY": '0123 "\\: {}#\n%'}},
    "workloads": {"slow": {"replicas": 0}, "web": {"variables": {"WEB_WORKERS": 4}}},
    "migration": {"enabled": False},
    "backup": {"keep": 1, "persistence": {"existingClaim": "mine"}},
    "ingress": {"enabled": True, "host": "*.example.org", "proxies": 0},
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "networkPolicy": {"blockedNetworks": [], "blockedNetworks6": []},
}
ALL_OFF = {
    "migration": {"enabled": False},
    "backup": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
}
VALUES = {"default": {}, "everything": EVERYTHING, "odd": ODD, "all off": ALL_OFF}


def render(values, name="demo"):
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name=name, namespace="prod")
    texts = [text for path, text in files.items() if path.endswith(".yaml")]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]


def of_kind(manifests, kind):
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}


def pods_of(manifests):
    """The pod templates by component."""
    specs = [
        manifest["spec"]["jobTemplate"]["spec"] if manifest["kind"] == "CronJob" else manifest["spec"]
        for manifest in manifests
        if manifest["kind"] in ("Deployment", "Job", "CronJob")
    ]
    return {
        spec["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: spec["template"]
        for spec in specs
    }


def environment_of(manifests, component):
    """The variables that the container of a component gets, as Kubernetes puts them together."""
    (container,) = pods_of(manifests)[component]["spec"]["containers"]
    config_maps, secrets = of_kind(manifests, "ConfigMap"), of_kind(manifests, "Secret")
    environment = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            environment |= config_maps[source["configMapRef"]["name"]]["data"]
        else:
            environment |= secrets.get(source["secretRef"]["name"], {}).get("stringData", {})
    return environment | {row["name"]: row.get("value", "") for row in container.get("env", [])}


def compose_services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


@pytest.fixture(scope="module")
def rendered():
    return {name: render(values) for name, values in VALUES.items()}


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("values", VALUES)
def test_what_is_rendered_is_what_kubernetes_accepts(rendered, values, version):
    assert len(rendered[values]) >= 10
    for manifest in rendered[values]:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_the_check_finds_a_misspelt_member(rendered):
    deployment = next(iter(of_kind(rendered["default"], "Deployment").values()))
    deployment = json.loads(json.dumps(deployment))
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.utils.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES_VERSIONS[0], strict=True)


@pytest.mark.parametrize("values", VALUES)
def test_helm_finds_nothing_to_warn_of(values):
    report = helm_python.lint(CHART, VALUES[values], strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] > 1] == []


@pytest.mark.parametrize("name", ["pegboard", "a", "x" * 53, "pegboard-" + "y" * 44])
def test_names_fit_for_every_name_of_a_release(name):
    manifests = render(EVERYTHING, name)
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(set(names)) == len(names)
    for kind, text in names:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text)
        assert len(text) <= (52 if kind == "CronJob" else 63)


@pytest.mark.parametrize("component", WORKLOADS)
def test_each_process_runs_the_command_of_the_containers(rendered, component):
    (container,) = pods_of(rendered["default"])[component]["spec"]["containers"]
    assert container.get("args") == compose_services()[component].get("command")
    assert "command" not in container


def test_the_migration_runs_the_command_of_the_containers(rendered):
    (container,) = pods_of(rendered["default"])["migrate"]["spec"]["containers"]
    assert container["args"] == shlex.split(compose_services()["migrate"]["command"])


def default_in_compose(value):
    """The value of a variable in docker-compose.yml if the person sets none."""
    return re.sub(r"\$\{[A-Z_]+(?::?-([^}]*))?(?::?\?[^}]*)?\}", lambda match: match[1] or "", str(value))


@pytest.mark.parametrize("component", WORKLOADS)
def test_each_process_has_the_variables_of_its_container(rendered, component):
    services = compose_services()
    shared = services["beat"]["environment"].keys()  # what all containers are given
    fixed = {
        name: default_in_compose(value)
        for name, value in services[component]["environment"].items()
        if name not in shared
        or name == "PEGBOARD_READY_FILE"
        or value != services["beat"]["environment"][name]
    }
    environment = environment_of(rendered["default"], component)
    assert environment.items() >= fixed.items()
    # Whatever else is set is set for all.
    own_variables = (
        environment.keys() - of_kind(rendered["default"], "ConfigMap")["demo-pegboard"]["data"].keys()
    )
    assert own_variables == fixed.keys()


def test_every_variable_of_the_containers_can_be_set():
    services = compose_services()
    names = {name for component in WORKLOADS for name in services[component]["environment"]}
    set_by_chart = {"PEGBOARD_READY_FILE", "PEGBOARD_HOSTS"}
    plain = {name: f"value of {name}" for name in names - SECRETS.keys() - set_by_chart}
    assert len(plain) > 30
    variables = plain | {"PEGBOARD_HOSTS": "a.example b.example"}
    workloads = {component: {"variables": variables} for component in WORKLOADS}
    for values in ({"variables": variables}, {"workloads": workloads}):
        manifests = render(values | {"secret": {"create": SECRETS}})
        for component in WORKLOADS:
            environment = environment_of(manifests, component)
            assert environment.keys() >= names - {"PEGBOARD_READY_FILE"}
            if "workloads" in values:
                assert environment.items() >= variables.items()
            else:
                fixed = {"WEB_WORKERS", "WEB_THREADS", "PEGBOARD_DATABASE_CONNECTIONS"}
                assert environment.items() >= {
                    (name, value) for name, value in variables.items() if name not in fixed
                }
            assert environment.items() >= SECRETS.items()


def test_values_arrive_as_they_were_entered(rendered):
    environment = environment_of(rendered["odd"], "web")
    for name, value in ODD["variables"].items():
        assert environment[name] == str(value)
    assert environment["PEGBOARD_SECRET_KEY"] == ODD["secret"]["create"]["PEGBOARD_SECRET_KEY"]
    assert environment["WEB_WORKERS"] == "4"


def test_secrets_are_in_secrets_alone(rendered):
    for manifest in rendered["everything"]:
        if manifest["kind"] != "Secret":
            assert "canary" not in json.dumps(manifest)
    owner = {
        name
        for name, secret in of_kind(rendered["everything"], "Secret").items()
        if "canary-owner" in str(secret)
    }
    assert owner == {"demo-pegboard-owner", "demo-pegboard-migrate"}
    for component, pod in pods_of(rendered["everything"]).items():
        reads_owner = any(
            name in json.dumps(pod) for name in ('"demo-pegboard-owner"', '"demo-pegboard-migrate"')
        )
        assert reads_owner == (component in ("migrate", "backup"))


@pytest.mark.parametrize("owner", [{}, {"create": OWNER_SECRETS}], ids=["owner exists", "owner created"])
@pytest.mark.parametrize("secret", [{}, {"create": SECRETS}], ids=["secret exists", "secret created"])
def test_the_migration_reads_the_address_of_the_owner_last(secret, owner):
    manifests = render({"secret": secret, "ownerSecret": owner})
    (container,) = pods_of(manifests)["migrate"]["spec"]["containers"]
    sources = [source["secretRef"]["name"] for source in container["envFrom"] if "secretRef" in source]
    secrets = of_kind(manifests, "Secret")
    hooks = [name for name in sources if name in secrets]
    if owner:
        assert environment_of(manifests, "migrate")["DATABASE_URL"] == OWNER_SECRETS["DATABASE_URL"]
        assert secrets[sources[-1]]["stringData"]["DATABASE_URL"] == OWNER_SECRETS["DATABASE_URL"]
    else:
        assert sources[-1] == "pegboard-owner"
    if not secret:
        assert "pegboard-secrets" in sources[:-1]
    for name in hooks:
        # It exists before the job starts, which the secrets of the release do not.
        annotations = secrets[name]["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert int(annotations["helm.sh/hook-weight"]) < 0


# Objects that the operator makes, by their kind.
MADE_BY_OPERATOR = {
    "Secret": {"pegboard-secrets", "pegboard-owner", "keys", "tls", "registry"},
    "PersistentVolumeClaim": {"mine"},
    "ServiceAccount": {"default"},
}


@pytest.mark.parametrize("values", VALUES)
def test_every_name_that_a_pod_refers_to_exists(rendered, values):
    def exists(kind, name):
        return name in of_kind(rendered[values], kind).keys() | MADE_BY_OPERATOR.get(kind, set())

    for pod in pods_of(rendered[values]).values():
        assert exists("ServiceAccount", pod["spec"].get("serviceAccountName", "default"))
        claims = [volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]]
        assert all(exists("PersistentVolumeClaim", claim["claimName"]) for claim in claims if claim)
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for source in container.get("envFrom", []):
            kind = "ConfigMap" if "configMapRef" in source else "Secret"
            (reference,) = source.values()
            assert exists(kind, reference["name"])


@pytest.mark.parametrize("values", VALUES)
def test_every_service_sends_to_the_pods_of_its_name(rendered, values):
    pods = pods_of(rendered[values])
    services = of_kind(rendered[values], "Service")
    assert services.keys() == {"demo-pegboard-web", "demo-pegboard-runtimes"}
    for name, service in services.items():
        selector = service["spec"]["selector"].items()
        (selected,) = (key for key, pod in pods.items() if pod["metadata"]["labels"].items() >= selector)
        assert name.endswith(selected)
        (port,) = pods[selected]["spec"]["containers"][0]["ports"]
        assert port["name"] == service["spec"]["ports"][0]["targetPort"]
    for ingress in of_kind(rendered[values], "Ingress").values():
        paths = [path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
        assert {path["backend"]["service"]["name"] for path in paths} == services.keys()


@pytest.mark.parametrize("values", VALUES)
def test_every_rule_about_pods_applies_to_pods_that_exist(rendered, values):
    pods = pods_of(rendered[values])
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "Deployment"):
        for manifest in of_kind(rendered[values], kind).values():
            selector = manifest["spec"].get("selector") or manifest["spec"]["podSelector"]
            labels = selector["matchLabels"].items()
            assert any(pod["metadata"]["labels"].items() >= labels for pod in pods.values())
            for expression in selector.get("matchExpressions", []):
                assert set(expression["values"]) <= pods.keys()
    for scaler in of_kind(rendered[values], "HorizontalPodAutoscaler").values():
        deployment = of_kind(rendered[values], "Deployment")[scaler["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in deployment["spec"], "an upgrade would undo what the scaler did"


@pytest.mark.parametrize("values", VALUES)
def test_every_pod_has_no_more_rights_than_it_needs(rendered, values):
    for pod in pods_of(rendered[values]).values():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert all(volume.keys() != {"name", "hostPath"} for volume in spec["volumes"])
    assert "USER 10001" in (ROOT / "Dockerfile").read_text()


def test_probes_ask_what_the_health_checks_of_the_containers_ask(rendered):
    for component in WORKLOADS:
        (container,) = pods_of(rendered["default"])[component]["spec"]["containers"]
        if component in ("web", "runtimes"):
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
            assert "httpHeaders" not in json.dumps(container), "probes are answered for any host"
            assert container["ports"][0]["containerPort"] == 8000
        else:
            path = compose_services()[component]["environment"]["PEGBOARD_READY_FILE"]
            assert {"name": "PEGBOARD_READY_FILE", "value": path} in container["env"]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert path in " ".join(container[probe]["exec"]["command"])
        grace = compose_services()[component]["stop_grace_period"]
        assert pods_of(rendered["default"])[component]["spec"]["terminationGracePeriodSeconds"] == int(
            grace[:-1]
        )


@pytest.mark.parametrize(
    ("age", "is_alive", "is_ready"),
    [(None, False, False), (0, True, True), (120, True, False), (400, False, False)],
    ids=["not started", "alive", "late", "stuck"],
)
def test_probes_of_workers_look_at_the_age_of_their_file(rendered, tmp_path, age, is_alive, is_ready):
    (container,) = pods_of(rendered["default"])["worker"]["spec"]["containers"]
    path = tmp_path / "alive"
    if age is not None:
        path.touch()
        moment = path.stat().st_mtime - age
        os.utime(path, (moment, moment))
    for probe, expected in (
        ("startupProbe", age is not None),
        ("livenessProbe", is_alive),
        ("readinessProbe", is_ready),
    ):
        command = [word.replace("/tmp/alive", str(path)) for word in container[probe]["exec"]["command"]]
        assert (subprocess.run(command, capture_output=True, check=False).returncode == 0) == expected


def test_messages_name_deployments_that_exist(rendered):
    environment = environment_of(rendered["default"], "web")
    deployments = of_kind(rendered["default"], "Deployment")
    for process in ("web", "worker", "slow", "caller", "beat"):
        words = environment["PEGBOARD_START"].replace("{process}", process).split()
        assert words[:5] == ["kubectl", "--namespace", "prod", "rollout", "restart"]
        assert words[5].removeprefix("deploy/") in deployments
    assert environment["PEGBOARD_MANAGE"].split()[4].removeprefix("deploy/") in deployments


def test_callers_scale_by_a_metric_that_pegboard_reports(rendered):
    scaler = of_kind(rendered["everything"], "HorizontalPodAutoscaler")["demo-pegboard-caller"]
    (metric,) = scaler["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] in {row[0] for row in metrics.GAUGES}
    assert metric["external"]["target"] == {"type": "Value", "value": "5"}


def test_an_ingress_sends_each_path_to_its_service_and_says_its_address(rendered):
    (ingress,) = of_kind(rendered["odd"], "Ingress").values()
    (rule,) = ingress["spec"]["rules"]
    services = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    assert services == {
        "/serve/": "demo-pegboard-runtimes",
        "/api/": "demo-pegboard-runtimes",
        "/": "demo-pegboard-web",
    }
    assert "tls" not in ingress["spec"]
    assert environment_of(rendered["odd"], "web")["PEGBOARD_URL"] == "http://*.example.org"

    environment = environment_of(rendered["everything"], "beat")
    assert environment["PEGBOARD_URL"] == "https://pegboard.example.org"
    assert environment["PEGBOARD_RUNTIMES_URL"] == "https://runtimes.example.org"
    assert environment["PEGBOARD_HOSTS"] == "pegboard.example.org runtimes.example.org"
    assert environment["PEGBOARD_HTTPS"] == "1"
    assert environment["PEGBOARD_PROXIES"] == "2", "what the person sets takes precedence"


@pytest.mark.parametrize(
    "values",
    [
        {"variables": {"PEGBOARD_KEYS": "k1:..."}},
        {"variables": {"PEGBOARD_OUTBOUND_PROXY": "http://user:password@proxy:3128"}},
        {"workloads": {"web": {"variables": {"DATABASE_URL": "postgresql://db"}}}},
        {"variables": {"pegboard_log": "json"}},
        {"secret": {"create": {"DATABASE_URL": "postgresql://db"}}},
        {"secret": {"existing": ""}},
        {"worklods": {}},
        {"workloads": {"web": {"replicas": -1}}},
        {"workloads": {"webb": {"replicas": 1}}},
        {"ingress": {"host": "https://pegboard.example.org"}},
        {"image": {"digest": "latest"}},
        {"podLabels": {"app.kubernetes.io/component": "web"}},
        {"terminationGracePeriodSeconds": 5},
    ],
)
def test_values_that_would_go_wrong_are_refused(values):
    with pytest.raises(helm_python.HelmValuesError):
        render(values)


@pytest.mark.parametrize("keep", [1, 14, 1_000_000])
def test_the_backup_is_the_job_of_the_containers(keep):
    job = compose_services()["backup"]
    manifests = render({"backup": {"keep": keep}})
    (container,) = pods_of(manifests)["backup"]["spec"]["containers"]
    assert container["image"] == pods_of(manifests)["web"]["spec"]["containers"][0]["image"]
    assert container["args"] == [*job["command"][:-1], str(keep)]
    assert "command" not in container
    directory = environment_of(manifests, "backup")["PEGBOARD_BACKUPS"]
    assert directory == job["environment"]["PEGBOARD_BACKUPS"]
    assert {"name": "backups", "mountPath": directory} in container["volumeMounts"]


@pytest.mark.parametrize("owner", [{}, {"create": OWNER_SECRETS}], ids=["owner exists", "owner created"])
def test_the_backup_connects_as_the_owner_with_the_files_of_the_processes(owner):
    values = {name: EVERYTHING[name] for name in ("variables", "volumes", "volumeMounts")}
    manifests = render(values | {"secret": {"create": SECRETS}, "ownerSecret": owner})
    (container,) = pods_of(manifests)["backup"]["spec"]["containers"]
    sources = [source["secretRef"]["name"] for source in container["envFrom"] if "secretRef" in source]
    assert sources[-1] == ("demo-pegboard-owner" if owner else "pegboard-owner")
    if owner:
        assert environment_of(manifests, "backup")["DATABASE_URL"] == OWNER_SECRETS["DATABASE_URL"]
    assert environment_of(manifests, "backup")["PEGBOARD_SECRET_KEY"] == SECRETS["PEGBOARD_SECRET_KEY"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"/tmp", "/backups", "/keys"}


def test_an_image_for_another_server_is_the_one_of_the_backup_alone():
    manifests = render({"backup": {"image": "registry.example.com/pegboard-15:0.1.0"}})
    images = {name: pod["spec"]["containers"][0]["image"] for name, pod in pods_of(manifests).items()}
    assert images.pop("backup") == "registry.example.com/pegboard-15:0.1.0"
    assert len(set(images.values())) == 1
