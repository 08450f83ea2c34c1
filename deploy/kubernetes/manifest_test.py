#!/usr/bin/env python3
"""The manifests compared with this tree: flags of `foretoken serve`, settings of the application, the probes' path,
names of the metrics. No cluster is needed."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "ray"))
PROGRAM = os.environ.get("FORETOKEN", str(ROOT / "build/release/foretoken"))


def documents(name):
    return {one["kind"]: one for one in yaml.safe_load_all((HERE / name).read_text(encoding="utf-8"))}


class Plain(unittest.TestCase):
    def setUp(self):
        self.kinds = documents("foretoken.yaml")
        self.pod = self.kinds["Deployment"]["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_every_flag_is_one_of_serve(self):
        manual = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z-]+", manual))
        flags = {word for word in self.container["args"] if word.startswith("--")}
        self.assertLessEqual(flags, known)
        self.assertEqual(self.container["args"][0], "serve")

    def test_answers_finish_before_the_pod_goes(self):
        grace = int(self.container["args"][self.container["args"].index("--grace") + 1])
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], grace)

    def test_probes_ask_for_health_under_an_allowed_host(self):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            get = self.container[probe]["httpGet"]
            self.assertEqual((get["path"], get["port"]), ("/health", "http"))
            self.assertEqual(get["httpHeaders"], [{"name": "Host", "value": "localhost"}])

    def test_service_pods_and_secret_name_each_other(self):
        labels = self.kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(self.kinds["Service"]["spec"]["selector"], labels)
        self.assertEqual(self.pod["volumes"][0]["secret"]["secretName"], self.kinds["Secret"]["metadata"]["name"])
        self.assertIn(self.kinds["Service"]["metadata"]["name"], self.container["args"], "the name is an allowed host")

    def test_the_metrics_that_it_names_are_gauges_of_the_program(self):
        source = (ROOT / "src/server/metrics_text.cpp").read_text(encoding="utf-8")
        named = set(re.findall(r"vllm:\w+", (HERE / "foretoken.yaml").read_text(encoding="utf-8")))
        self.assertEqual(len(named), 3)
        self.assertLessEqual(named, set(re.findall(r'measure\(text, "(vllm:\w+)"', source)))

    def test_nothing_runs_as_root(self):
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])
        self.assertTrue(self.container["securityContext"]["readOnlyRootFilesystem"])


class KubeRay(unittest.TestCase):
    def setUp(self):
        self.spec = documents("rayservice.yaml")["RayService"]["spec"]

    def test_the_application_reads_its_settings(self):
        from foretoken_ray.settings import Settings
        application = yaml.safe_load(self.spec["serveConfigV2"])["applications"][0]
        module, function = application["import_path"].split(":")
        self.assertTrue(callable(getattr(__import__(module, fromlist=[function]), function)))
        settings = Settings.model_validate(application["args"])
        workers = self.spec["rayClusterConfig"]["workerGroupSpecs"][0]
        self.assertLessEqual(settings.models[0].replicas.most, workers["maxReplicas"])

    def test_ray_has_one_version(self):
        version = self.spec["rayClusterConfig"]["rayVersion"]
        self.assertIn(f"ray[serve]=={version}", (HERE.parent / "ray/requirements-test.txt").read_text(encoding="utf-8"))
        self.assertIn(f"ray:{version}-", (HERE / "Containerfile.ray").read_text(encoding="utf-8"))

    def test_images_have_the_version_of_the_project(self):
        project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"project\(foretoken VERSION ([\d.]+)", project)[1]
        for name in ("foretoken.yaml", "rayservice.yaml", "Containerfile.ray"):
            images = re.findall(r"foretoken(?:-ray)?:([\d.]+)", (HERE / name).read_text(encoding="utf-8"))
            self.assertEqual(set(images), {version}, name)


if __name__ == "__main__":
    unittest.main(verbosity=0)
