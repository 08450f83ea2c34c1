#!/usr/bin/env node
// `npx foretoken ...`: runs the program of this platform's package and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");

const platform = `${process.platform}-${process.arch}`;

function program() {
  if (process.env.FORETOKEN) return process.env.FORETOKEN;
  try {
    return require.resolve(`foretoken-${platform}/bin/foretoken`);
  } catch {
    console.error(
      `foretoken: there is no program for ${platform} (npm package foretoken-${platform}); ` +
        "build foretoken from source and set FORETOKEN to the program",
    );
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`foretoken: the program does not start: ${error.message}; install the package again`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
