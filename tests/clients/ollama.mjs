// Ollama's own client.
import { Ollama } from "ollama";
import * as c from "./checks.mjs";

const headers = (key) => ({ Authorization: "Bearer " + key });
const client = new Ollama({ host: c.url, headers: headers(c.apiKey) });
const { max_tokens: num_predict, ...draws } = c.options;
const asked = { model: c.model, messages: c.question, options: { ...draws, num_predict, num_ctx: 4096 }, keep_alive: "5m" };
const story = { model: c.model, prompt: "Once upon a time", options: asked.options };

async function joined(stream, textOf) {
  let text = "", last = null;
  for await (const part of stream) {
    text += textOf(part);
    last = part;
  }
  return { text, last };
}

async function fails(promise, status, pattern) {
  await c.assert.rejects(promise, (error) => error.status_code === status && pattern.test(error.message));
}

const called = { model: c.model, messages: c.toolQuestion, tools: [c.tool], tool_choice: "required", options: { seed: 7, num_predict: 200 } };

await c.run("ollama", {
  async "tools"() {
    c.assert.ok((await client.show({ model: c.model })).capabilities.includes("tools"));
    const { message } = await client.chat(called);
    c.assert.equal(message.tool_calls[0].function.name, "light");
    c.assertLight(message.tool_calls[0].function.arguments);
    const messages = [...c.toolQuestion, message, { role: "tool", tool_name: "light", content: "done" }];
    const after = await client.chat({ ...called, messages, tool_choice: "none" });
    c.assert.ok(!after.message.tool_calls);
  },
  async "tools, stream"() {
    const calls = [];
    for await (const part of await client.chat({ ...called, stream: true })) calls.push(...(part.message.tool_calls ?? []));
    c.assertLight(calls[0].function.arguments);
  },
  async "list, show, ps, version"() {
    const { models } = await client.list();
    c.assert.equal(models.length, 1);
    const shown = await client.show({ model: models[0].model });
    if (c.isCria) c.assert.deepEqual(shown.capabilities, ["completion", "tools"]);
    c.assert.ok(shown.model_info["general.architecture"]);
    c.assert.equal((await client.ps()).models[0].model, models[0].model);
    c.assert.match((await client.version()).version, /^\d+\.\d+\.\d+/);
  },
  async "chat, not stream"() {
    const answer = await client.chat(asked);
    c.assert.equal(answer.message.role, "assistant");
    c.assert.ok(answer.message.content.length > 0);
    c.assert.ok(answer.done && answer.total_duration > 0 && answer.eval_count > 0);
    if (c.isCria) c.assert.equal((await client.chat(asked)).message.content, answer.message.content);
  },
  async "chat, stream"() {
    const whole = await client.chat(asked);
    const { text, last } = await joined(await client.chat({ ...asked, stream: true }), (part) => part.message.content);
    if (c.isCria) c.assert.equal(text, whole.message.content);
    c.assert.equal(last.done_reason, whole.done_reason);
    c.assert.equal(last.eval_count, whole.eval_count);
  },
  async "generate"() {
    const whole = await client.generate(story);
    const { text } = await joined(await client.generate({ ...story, stream: true }), (part) => part.response);
    c.assert.ok(text.length > 0);
    if (c.isCria) c.assert.equal(text, whole.response);
    const raw = await client.generate({ ...story, raw: true });
    c.assert.ok(raw.response.length > 0);
  },
  async "embeddings"() {
    const input = ["a river", "a stream"];
    const made = await client.embed({ model: c.model, input });
    c.assert.equal(made.embeddings.length, 2);
    const old = await client.embeddings({ model: c.model, prompt: input[1] });
    if (c.isCria) c.assert.deepEqual(old.embedding, made.embeddings[1]);
  },
  async "format"() {
    const answer = await client.chat({ ...asked, options: { ...draws, num_predict: 200 }, format: c.schema });
    c.assertAnimal(JSON.parse(answer.message.content));
  },
  async "load and unload"() {
    c.assert.equal((await client.generate({ model: c.model, prompt: "" })).done_reason, "load");
    c.assert.equal((await client.chat({ model: c.model, messages: [], keep_alive: 0 })).done_reason, "unload");
  },
  async "pull of the model that is there"() {
    c.assert.equal((await client.pull({ model: c.model })).status, "success");
    const { last } = await joined(await client.pull({ model: c.model, stream: true }), () => "");
    c.assert.equal(last.status, "success");
  },
  async "errors"() {
    await fails(client.chat({ ...asked, model: "nobody" }), 404, /model 'nobody' not found/);
    await fails(client.chat({ ...asked, stream: true, options: { temperature: "hot" } }), 400, /temperature/);
    if (c.isCria) {
      await fails(client.delete({ model: c.model }), 501, /one model/);
      await fails(new Ollama({ host: c.url, headers: headers(c.wrongKey) }).chat(asked), 401, /API key/);
    }
  },
  async "abort"() {
    const stream = await client.chat({ ...asked, stream: true, format: "json", options: { ...draws, temperature: 0 } });
    for await (const part of stream) {
      c.assert.ok(!part.done);
      break;
    }
    client.abort();
    await c.assertAllFree();
  },
});
