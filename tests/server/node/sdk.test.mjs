// The JavaScript SDKs, npm `openai` and Vercel's `ai`, against the server at $SERVER_URL (tests/server/node_test.py
// starts it). The tests check form and equality, not the words of the small model.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const url = `${process.env.SERVER_URL}/v1`;
const apiKey = process.env.SERVER_KEY;
const model = process.env.SERVER_MODEL;
const picture = readFileSync(process.env.PICTURE); // a red circle and a blue square
const client = new OpenAI({ baseURL: url, apiKey });
const provider = createOpenAICompatible({
  name: "foretoken",
  baseURL: url,
  apiKey,
  includeUsage: true,
  supportsStructuredOutputs: true,
});

const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "get_weather", description: "Weather", parameters } }];

test("openai: a stream joins to the whole answer", async () => {
  const fields = { model, messages, temperature: 0, max_tokens: 24 };
  const whole = await client.chat.completions.create(fields);
  let text = "";
  let usages = 0;
  const stream = await client.chat.completions.create({
    ...fields,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    if (chunk.usage) usages += 1;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usages, 1);
});

test("openai: the stream helper gives a whole completion with its calls", async () => {
  const stream = client.chat.completions.stream({
    model,
    messages,
    tools,
    tool_choice: "required",
    temperature: 0,
    max_tokens: 200,
  });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].finish_reason, "tool_calls");
  const call = final.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
});

test("openai: structured output is parsed", async () => {
  const City = z.object({ name: z.string(), capital: z.boolean() });
  const answer = await client.chat.completions.parse({
    model,
    messages: [{ role: "user", content: "Name a city." }],
    response_format: zodResponseFormat(City, "city"),
    max_tokens: 300,
    seed: 1,
  });
  assert.equal(typeof answer.choices[0].message.parsed.name, "string");
});

test("openai: the events of responses are numbered and end with the whole", async () => {
  const stream = await client.responses.create({
    model,
    input: "Hello",
    max_output_tokens: 16,
    temperature: 0,
    stream: true,
  });
  let number = 0;
  let text = "";
  let last;
  for await (const event of stream) {
    assert.equal(event.sequence_number, number++);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.ok(["response.completed", "response.incomplete"].includes(last.type));
  assert.equal(last.response.output[0].content[0].text, text);
});

test("openai: a conversation continues from the previous response", async () => {
  const first = await client.responses.create({ model, input: "My name is Ada.", max_output_tokens: 8 });
  const second = await client.responses.create({
    model,
    input: "What is my name?",
    previous_response_id: first.id,
    max_output_tokens: 8,
  });
  assert.ok(second.usage.input_tokens > first.usage.input_tokens);
});

test("openai: errors have their types and name the field", async () => {
  await assert.rejects(client.chat.completions.create({ model, messages, temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
  await assert.rejects(client.chat.completions.create({ model: "gpt-9", messages }), OpenAI.NotFoundError);
  const stranger = new OpenAI({ baseURL: url, apiKey: "guess" });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test("openai: an aborted stream ends at once and the next request is served", async () => {
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 2000, stream: true });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) break;
  }
  stream.controller.abort();
  const next = await client.chat.completions.create({ model, messages, max_tokens: 1 });
  assert.equal(next.usage.completion_tokens, 1);
});

test("ai: generateText and streamText give the same text and the usage", async () => {
  const fields = { model: provider(model), prompt: "Hello", temperature: 0, maxOutputTokens: 24 };
  const whole = await generateText(fields);
  const stream = streamText(fields);
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).totalTokens, whole.usage.totalTokens);
  assert.ok(["stop", "length"].includes(await stream.finishReason));
});

test("ai: a tool is called with arguments that fit its schema", async () => {
  const stream = streamText({
    model: provider(model),
    prompt: "What is the weather in Oslo?",
    temperature: 0,
    maxOutputTokens: 200,
    toolChoice: "required",
    tools: { get_weather: tool({ description: "Weather", inputSchema: jsonSchema(parameters) }) },
  });
  const calls = await stream.toolCalls;
  assert.equal(calls[0].toolName, "get_weather");
  assert.equal(typeof calls[0].input.city, "string");
});

test("ai: generateObject gives an object of the schema", async () => {
  const { object } = await generateObject({
    model: provider(model),
    prompt: "Name a city.",
    seed: 1,
    maxOutputTokens: 300,
    schema: jsonSchema({
      type: "object",
      properties: { name: { type: "string" }, capital: { type: "boolean" } },
      required: ["name", "capital"],
      additionalProperties: false,
    }),
  });
  assert.equal(typeof object.name, "string");
  assert.equal(typeof object.capital, "boolean");
});

test("openai: an image is described in chat and responses", async () => {
  const url = `data:image/png;base64,${picture.toString("base64")}`;
  const answer = await client.chat.completions.create({
    model,
    temperature: 0,
    messages: [
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url } },
          { type: "text", text: "Describe the picture." },
        ],
      },
    ],
  });
  assert.match(answer.choices[0].message.content, /red circle/);
  const response = await client.responses.create({
    model,
    temperature: 0,
    input: [
      {
        role: "user",
        content: [
          { type: "input_image", image_url: url, detail: "auto" },
          { type: "input_text", text: "Describe the picture." },
        ],
      },
    ],
  });
  assert.equal(response.output_text, answer.choices[0].message.content);
  assert.equal(response.usage.input_tokens, answer.usage.prompt_tokens);
});

test("ai: an image is described, whole and streamed", async () => {
  const fields = {
    model: provider(model),
    temperature: 0,
    maxOutputTokens: 24,
    messages: [
      {
        role: "user",
        content: [
          { type: "image", image: picture, mediaType: "image/png" },
          { type: "text", text: "Describe the picture." },
        ],
      },
    ],
  };
  const whole = await generateText(fields);
  assert.match(whole.text, /red circle/);
  const stream = streamText(fields);
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).inputTokens, whole.usage.inputTokens);
});
