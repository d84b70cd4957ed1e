// LangChain's chat model for OpenAI.
import { ChatOpenAI } from "@langchain/openai";
import * as c from "./checks.mjs";

const make = (more = {}) =>
  new ChatOpenAI({ model: c.model, apiKey: c.apiKey, temperature: 0.8, maxTokens: 40, maxRetries: 0, modelKwargs: { seed: 7 },
    configuration: { baseURL: c.baseURL }, ...more });
const words = c.question[0].content;

await c.run("langchain", {
  async "tools"() {
    const bound = make({ maxTokens: 200 }).bindTools([c.tool], { tool_choice: "required" });
    const answer = await bound.invoke(c.toolQuestion[0].content);
    c.assert.equal(answer.tool_calls[0].name, "light");
    c.assertLight(answer.tool_calls[0].args);
    let whole = null;
    for await (const chunk of await bound.stream(c.toolQuestion[0].content)) whole = whole === null ? chunk : whole.concat(chunk);
    c.assertLight(whole.tool_calls[0].args);
  },
  async "not stream"() {
    const answer = await make().invoke(words);
    c.assert.ok(answer.content.length > 0);
    c.assert.ok(answer.usage_metadata.input_tokens > 0 && answer.usage_metadata.output_tokens > 0);
  },
  async "stream"() {
    const whole = await make().invoke(words);
    let text = "";
    for await (const chunk of await make().stream(words)) text += chunk.content;
    if (c.isCria) c.assert.equal(text, whole.content);
  },
  async "batch"() {
    const answers = await make().batch([words, words, words]);
    c.assert.equal(answers.length, 3);
    if (c.isCria) c.assert.ok(answers.every((answer) => answer.content === answers[0].content));
  },
  async "abort"() {
    for await (const _ of await make({ maxTokens: 400 }).stream(words)) break;
    await c.assertAllFree();
    const control = new AbortController();
    const pending = make({ maxTokens: 400 }).invoke(words, { signal: control.signal });
    setTimeout(() => control.abort(), 3);
    await c.assert.rejects(pending);
    await c.assertAllFree();
  },
  async "schema"() {
    const reader = make({ temperature: 1.5, maxTokens: 200 }).withStructuredOutput(c.schema, { name: "animal", method: "jsonSchema", strict: true });
    c.assertAnimal(await reader.invoke(words));
  },
  async "overflow"() {
    await c.assert.rejects(make().invoke(c.longQuestion[0].content), (error) => {
      c.assert.equal(error.status, 400);
      c.assert.match(JSON.stringify(error.error ?? error.message), /context/);
      return true;
    });
  },
  async "401"() {
    await c.assert.rejects(make({ apiKey: c.wrongKey }).invoke(words), (error) => {
      c.assert.equal(error.status, 401);
      return true;
    });
  },
});
