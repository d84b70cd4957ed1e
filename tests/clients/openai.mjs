// OpenAI's own client.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import * as c from "./checks.mjs";

const client = new OpenAI({ baseURL: c.baseURL, apiKey: c.apiKey, maxRetries: 0 });
const asked = { model: c.model, messages: c.question, ...c.options };

async function streamed(request) {
  const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  let text = "", usage = null, reason = null;
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    text += chunk.choices[0]?.delta?.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
  }
  return { text, usage, reason };
}

const called = { model: c.model, messages: c.toolQuestion, tools: [c.tool], tool_choice: "required", parallel_tool_calls: false, seed: 7, max_tokens: 200 };

await c.run("openai", {
  async "tools"() {
    const { message, finish_reason } = (await client.chat.completions.create(called)).choices[0];
    c.assert.equal(finish_reason, "tool_calls");
    const call = message.tool_calls[0];
    c.assert.equal(call.function.name, "light");
    c.assertLight(JSON.parse(call.function.arguments));
    const messages = [...c.toolQuestion, message, { role: "tool", tool_call_id: call.id, content: "done" }];
    const after = await client.chat.completions.create({ ...called, messages, tool_choice: "none" });
    c.assert.ok(!after.choices[0].message.tool_calls);
  },
  async "tools, stream"() {
    const stream = client.chat.completions.stream(called);
    const message = await stream.finalMessage();
    c.assertLight(JSON.parse(message.tool_calls[0].function.arguments));
  },
  async "tools, ten rounds"() {
    let messages = c.toolQuestion;
    for (let round = 0; round < 10; ++round) {
      const { message } = (await client.chat.completions.create({ ...called, messages, seed: round })).choices[0];
      c.assertLight(JSON.parse(message.tool_calls[0].function.arguments));
      const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: `done ${round}` };
      messages = [...c.toolQuestion, message, result, ...c.toolQuestion];
    }
  },
  async "responses"() {
    if (!c.isCria) return;
    const request = { model: c.model, input: c.question[0].content, temperature: 0, max_output_tokens: 40 };
    const whole = await client.responses.create(request);
    c.assert.ok(whole.output_text.length > 0);
    let text = "";
    const stream = client.responses.stream(request);
    stream.on("response.output_text.delta", (event) => (text += event.delta));
    const final = await stream.finalResponse();
    c.assert.equal(text, whole.output_text);
    c.assert.equal(final.output_text, whole.output_text);
    const tools = [{ type: "function", name: "light", description: "Sets a light.", parameters: c.parameters, strict: true }];
    const asked = { ...request, input: c.toolQuestion, tools, tool_choice: "required", parallel_tool_calls: false, max_output_tokens: 200 };
    const { output } = await client.responses.create(asked);
    c.assertLight(JSON.parse(output[0].arguments));
    const input = [...c.toolQuestion, ...output, { type: "function_call_output", call_id: output[0].call_id, output: "done" }];
    const after = await client.responses.create({ ...asked, input, tool_choice: "none" });
    c.assert.equal(after.output[0].type, "message");
  },
  async "models"() {
    const models = await client.models.list();
    c.assert.equal(models.data.length, 1);
  },
  async "not stream"() {
    const answer = await client.chat.completions.create(asked);
    const again = await client.chat.completions.create(asked);
    const { message, finish_reason } = answer.choices[0];
    c.assert.equal(message.role, "assistant");
    c.assert.ok(message.content.length > 0);
    c.assert.ok(["stop", "length"].includes(finish_reason));
    c.assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    if (c.isCria) c.assert.equal(again.choices[0].message.content, message.content);
  },
  async "stream"() {
    const whole = await client.chat.completions.create(asked);
    const { text, usage, reason } = await streamed(asked);
    if (c.isCria) c.assert.equal(text, whole.choices[0].message.content);
    c.assert.equal(reason, whole.choices[0].finish_reason);
    c.assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  },
  async "stream by its helper"() {
    const runner = client.chat.completions.stream(asked);
    let text = "";
    runner.on("content", (piece) => (text += piece));
    const final = await runner.finalChatCompletion();
    c.assert.equal(text, final.choices[0].message.content);
  },
  async "completions"() {
    const request = { model: c.model, prompt: "Once upon a time", ...c.options };
    const whole = await client.completions.create(request);
    let text = "";
    for await (const chunk of await client.completions.create({ ...request, stream: true })) text += chunk.choices[0]?.text ?? "";
    c.assert.ok(text.length > 0);
    if (c.isCria) c.assert.equal(text, whole.choices[0].text);
  },
  async "embeddings"() {
    const input = ["a river", "a stream"];
    const made = await client.embeddings.create({ model: c.model, input });  // asks for base64
    const floats = await client.embeddings.create({ model: c.model, input, encoding_format: "float" });
    c.assert.deepEqual(made.data.map((row) => row.index), [0, 1]);
    c.assert.deepEqual(made.data.map((row) => [...row.embedding]), floats.data.map((row) => [...new Float32Array(row.embedding)]));
    c.assert.equal(made.usage.total_tokens, made.usage.prompt_tokens);
  },
  async "several choices and logprobs"() {
    const answer = await client.chat.completions.create({ ...asked, n: 2, logprobs: true, top_logprobs: 3 });
    c.assert.equal(answer.choices.length, 2);
    for (const choice of answer.choices) {
      c.assert.ok(choice.logprobs.content.length > 0);
      c.assert.ok(choice.logprobs.content.every((token) => token.top_logprobs.length === 3 && token.logprob <= 0));
    }
  },
  async "abort"() {
    const stream = await client.chat.completions.create({ ...asked, max_tokens: 400, stream: true });
    for await (const _ of stream) break; // hangs up
    await c.assertAllFree();
    const control = new AbortController();
    const pending = client.chat.completions.create({ ...asked, max_tokens: 400 }, { signal: control.signal });
    setTimeout(() => control.abort(), 3);
    await c.assert.rejects(pending, OpenAI.APIUserAbortError);
    await c.assertAllFree();
  },
  async "schema"() {
    const response_format = { type: "json_schema", json_schema: { name: "animal", schema: c.schema, strict: true } };
    const answer = await client.chat.completions.create({ ...asked, temperature: 1.5, max_tokens: 200, response_format });
    c.assertAnimal(JSON.parse(answer.choices[0].message.content));
    const { text } = await streamed({ ...asked, temperature: 1.5, max_tokens: 200, response_format });
    c.assertAnimal(JSON.parse(text));
  },
  async "schema by zod"() {
    const Animal = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(120), colour: z.enum(["brown", "white"]),
      owner: z.object({ city: z.string().max(9).nullable() }).nullable() });
    const answer = await client.chat.completions.parse({ ...asked, max_tokens: 250, response_format: zodResponseFormat(Animal, "animal") });
    c.assert.ok(["brown", "white"].includes(answer.choices[0].message.parsed.colour));
  },
  async "json_object"() {
    const answer = await client.chat.completions.create({ ...asked, max_tokens: 200, response_format: { type: "json_object" } });
    if (answer.choices[0].finish_reason === "stop") c.assert.equal(typeof JSON.parse(answer.choices[0].message.content), "object");
  },
  async "overflow"() {
    for (const stream of [false, true]) {
      await c.assert.rejects(client.chat.completions.create({ ...asked, messages: c.longQuestion, stream }), (error) => {
        c.assert.ok(error instanceof OpenAI.BadRequestError, String(error));
        c.assert.equal(error.status, 400);
        c.assert.equal(error.type, "exceed_context_size_error");
        c.assert.ok(error.error.n_prompt_tokens > error.error.n_ctx);
        return true;
      });
    }
  },
  async "a request that is wrong"() {
    if (!c.isCria) return; // llama.cpp takes both
    await c.assert.rejects(client.chat.completions.create({ ...asked, messages: [] }), OpenAI.BadRequestError);
    await c.assert.rejects(client.chat.completions.create({ ...asked, temperature: -1 }), OpenAI.BadRequestError);
  },
  async "401"() {
    const stranger = new OpenAI({ baseURL: c.baseURL, apiKey: c.wrongKey, maxRetries: 0 });
    await c.assert.rejects(stranger.chat.completions.create(asked), OpenAI.AuthenticationError);
    await c.assert.rejects(stranger.chat.completions.create({ ...asked, stream: true }), OpenAI.AuthenticationError);
  },
});
