// What the AI Agent node of n8n sends through its chat models: LangChain for JavaScript as n8n installs it, with the
// node's own tools agent. Arguments: the folder of n8n's node_modules, the address, and openai, responses or
// anthropic.
const path = require("node:path");
const fs = require("node:fs");
const { createRequire } = require("node:module");

const [, , folder, url, kind] = process.argv;
const load = createRequire(path.join(folder, "@n8n/n8n-nodes-langchain/package.json"));
const { ChatOpenAI } = load("@langchain/openai");
const { ChatAnthropic } = load("@langchain/anthropic");
const { DynamicStructuredTool } = load("@langchain/core/tools");
const { ChatPromptTemplate } = load("@langchain/core/prompts");
const { HumanMessage, AIMessage } = load("@langchain/core/messages");
const { createToolCallingAgent, AgentExecutor } = load("@langchain/classic/agents");
const { z } = load("zod");

const picture = "data:image/png;base64," + fs.readFileSync("shapes.png").toString("base64");
const tools = [
  new DynamicStructuredTool({
    name: "Find_orders",
    description: "Finds orders of the shop",
    schema: z.object({
      filter: z.string().nullable().describe("What to look for"),
      per: z.enum(["day", "week"]).optional(),
      limit: z.number().int().min(1).default(10),
    }),
    func: async () => "Two orders: 17, 18.",
  }),
  new DynamicStructuredTool({
    name: "format_final_json_response",
    description: "Use this tool to format your final response",
    schema: z.object({ output: z.object({ files: z.number() }) }),
    func: async (input) => JSON.stringify(input),
  }),
];

function model() {
  if (kind === "anthropic") {
    return new ChatAnthropic({ model: "recorded", apiKey: "none", anthropicApiUrl: url, maxTokens: 1000 });
  }
  return new ChatOpenAI({
    model: "recorded",
    apiKey: "none",
    timeout: 60000,
    maxRetries: 0,
    useResponsesApi: kind === "responses",
    configuration: { baseURL: url + "/v1" },
    modelKwargs: kind === "responses" ? { text: { format: { type: "text" } } } : {},
  });
}

async function main() {
  const image = kind === "anthropic"
    ? { type: "image", source: { type: "base64", media_type: "image/png", data: picture.split(",")[1] } }
    : { type: "image_url", image_url: { url: picture } };
  const prompt = ChatPromptTemplate.fromMessages([
    ["system", "{system_message}"],
    ["placeholder", "{chat_history}"],
    ["human", "{input}"],
    new HumanMessage({ content: [image] }),
    ["placeholder", "{agent_scratchpad}"],
  ]);
  const history = [];
  for (const input of ["Find the orders.", "And now?"]) {
    const agent = createToolCallingAgent({ llm: model(), tools, prompt, streamRunnable: input === "And now?" });
    const executor = new AgentExecutor({ agent, tools, maxIterations: 4, returnIntermediateSteps: true });
    const fields = { input, system_message: "You look after a shop.", chat_history: history };
    try {
      const answer = await executor.invoke(fields);
      history.push(new HumanMessage(input), new AIMessage(String(answer.output)));
    } catch (error) {
      console.log(String(error).slice(0, 300));
      history.push(new HumanMessage(input), new AIMessage("I have looked at it."));
    }
  }
  if (kind === "openai") {
    const json = model().bind ? model().bind({ response_format: { type: "json_object" } }) : model();
    await json.invoke("How many files? Answer in JSON.");
  }
}

main();
