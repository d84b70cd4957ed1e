// Vercel's AI SDK with its provider for servers like OpenAI's, and with the one for OpenAI's, which asks for responses.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, jsonSchema, streamObject, streamText, tool } from "ai";
import * as c from "./checks.mjs";

const provider = (apiKey) =>
  createOpenAICompatible({ name: "cria", baseURL: c.baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const model = provider(c.apiKey).chatModel(c.model);
const asked = { model, messages: c.question, seed: 7, temperature: 0.8, maxOutputTokens: 40, maxRetries: 0 };
const animal = { ...asked, temperature: 1.5, maxOutputTokens: 200, schema: jsonSchema(c.schema), schemaName: "animal" };

const tools = { light: tool({ description: "Sets a light.", inputSchema: jsonSchema(c.parameters) }) };
const called = { ...asked, messages: c.toolQuestion, tools, toolChoice: "required", maxOutputTokens: 200 };

const responses = createOpenAI({ baseURL: c.baseURL, apiKey: c.apiKey })(c.model);
const answered = { ...asked, model: responses, seed: undefined, temperature: 0 };
const calledOnce = { ...called, model: responses, seed: undefined, providerOptions: { openai: { parallelToolCalls: false } } };

const checksOfResponses = {
  async "responses: tools"() {
    const { toolCalls, finishReason } = await generateText(calledOnce);
    c.assert.equal(finishReason, "tool-calls");
    c.assertLight(toolCalls[0].input);
  },
  async "responses: tools, stream, then an answer"() {
    const result = streamText(calledOnce);
    for await (const _ of result.fullStream);
    const call = (await result.toolCalls)[0];
    c.assertLight(call.input);
    const output = { type: "tool-result", toolCallId: call.toolCallId, toolName: call.toolName, output: { type: "text", value: "done" } };
    const messages = [...c.toolQuestion, ...(await result.response).messages, { role: "tool", content: [output] }];
    const { finishReason } = await generateText({ ...calledOnce, messages, toolChoice: "none" });
    c.assert.ok(["stop", "length"].includes(finishReason), finishReason);
  },
  async "responses: stream"() {
    const { text, usage } = await generateText(answered);
    c.assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
    const result = streamText(answered);
    let all = "";
    for await (const piece of result.textStream) all += piece;
    c.assert.equal(all, text);
  },
  async "responses: schema"() {
    const { object } = await generateObject({ ...animal, model: responses, seed: undefined });
    c.assertAnimal(object);
  },
};

await c.run("ai", {
  ...(c.isCria ? checksOfResponses : {}),
  async "tools"() {
    const { toolCalls, finishReason } = await generateText(called);
    c.assert.equal(finishReason, "tool-calls");
    c.assert.equal(toolCalls[0].toolName, "light");
    c.assertLight(toolCalls[0].input);
  },
  async "tools, stream"() {
    const result = streamText(called);
    for await (const _ of result.fullStream);
    c.assertLight((await result.toolCalls)[0].input);
  },
  async "not stream"() {
    const { text, usage, finishReason } = await generateText(asked);
    c.assert.ok(text.length > 0);
    c.assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
    c.assert.ok(["stop", "length"].includes(finishReason));
  },
  async "stream"() {
    const { text } = await generateText(asked);
    const result = streamText(asked);
    let all = "";
    for await (const piece of result.textStream) all += piece;
    if (c.isCria) c.assert.equal(all, text);
    c.assert.ok((await result.usage).outputTokens > 0);
  },
  async "completions"() {
    const { text } = await generateText({ ...asked, messages: undefined, prompt: "Once upon a time",
      model: provider(c.apiKey).completionModel(c.model) });
    c.assert.ok(text.length > 0);
  },
  async "abort"() {
    const control = new AbortController();
    const result = streamText({ ...asked, maxOutputTokens: 400, abortSignal: control.signal, onError() {} });
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") control.abort();
      if (part.type === "abort") break;
    }
    await c.assertAllFree();
    const early = new AbortController();
    const pending = generateText({ ...asked, maxOutputTokens: 400, abortSignal: early.signal });
    setTimeout(() => early.abort(), 3);
    await c.assert.rejects(pending, { name: "AbortError" });
    await c.assertAllFree();
  },
  async "schema"() {
    const { object } = await generateObject(animal);
    c.assertAnimal(object);
    const result = streamObject(animal);
    for await (const _ of result.partialObjectStream);
    c.assertAnimal(await result.object);
  },
  async "overflow"() {
    await c.assert.rejects(generateText({ ...asked, messages: c.longQuestion }), (error) => {
      c.assert.ok(APICallError.isInstance(error), String(error));
      c.assert.equal(error.statusCode, 400);
      c.assert.match(error.responseBody, /exceed_context_size_error/);
      c.assert.equal(error.isRetryable, false);
      return true;
    });
  },
  async "401"() {
    await c.assert.rejects(generateText({ ...asked, model: provider(c.wrongKey).chatModel(c.model) }), (error) => {
      c.assert.ok(APICallError.isInstance(error), String(error));
      c.assert.equal(error.statusCode, 401);
      return true;
    });
  },
});
