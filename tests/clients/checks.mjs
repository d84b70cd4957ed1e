// What the checks of each client share: where the server is, a list of checks, what is asked.
import assert from "node:assert/strict";

export { assert };
export const url = process.env.CRIA_URL; // http://127.0.0.1:PORT
export const baseURL = url + "/v1";
export const apiKey = process.env.CRIA_KEY;
export const wrongKey = "not-" + apiKey;
export const model = process.env.CRIA_MODEL_NAME ?? "demo";
export const isCria = process.env.CRIA_CONTROL === undefined; // else llama.cpp's server, as a control
export const question = [{ role: "user", content: "Tell me a story about a llama." }];
export const longQuestion = [{ role: "user", content: "word ".repeat(Number(process.env.CRIA_LONG ?? 4000)) }];
export const options = { seed: 7, temperature: 0.8, max_tokens: 40 };
export const schema = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 12 },
    age: { type: "integer", minimum: 0, maximum: 120 },
    colour: { type: "string", enum: ["brown", "white"] },
  },
  required: ["name", "age", "colour"],
  additionalProperties: false,
};

export function assertAnimal(animal) {
  assert.deepEqual(Object.keys(animal), ["name", "age", "colour"]);
  assert.equal(typeof animal.name, "string");
  assert.ok([...animal.name].length <= 12);
  assert.ok(Number.isInteger(animal.age) && animal.age >= 0 && animal.age <= 120);
  assert.ok(["brown", "white"].includes(animal.colour));
}

// A tool, whose calls are held to its schema, and what they are checked for.
export const parameters = {
  type: "object",
  properties: { room: { type: "string", enum: ["kitchen", "hall"] }, level: { type: "integer", minimum: 0, maximum: 9 } },
  required: ["room", "level"],
};
export const tool = { type: "function", function: { name: "light", description: "Sets a light.", parameters } };
export const toolQuestion = [{ role: "user", content: "Light in the hall, please." }];

export function assertLight(light) {
  assert.ok(["kitchen", "hall"].includes(light.room));
  assert.ok(Number.isInteger(light.level) && light.level >= 0 && light.level <= 9);
}

// Until nobody is answered any more; what was hung up on must not go on.
export async function assertAllFree(withinMs = 5000) {
  const end = Date.now() + withinMs;
  for (;;) {
    const reply = await fetch(url + "/slots", { headers: { Authorization: "Bearer " + apiKey } });
    assert.equal(reply.status, 200);
    if ((await reply.json()).every((slot) => !slot.is_processing)) return;
    assert.ok(Date.now() < end, "a session is still busy after its client has hung up");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// Runs checks one after the other; exit code 1 when one fails.
export async function run(client, checks) {
  let nFailed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok    ${client}: ${name}`);
    } catch (error) {
      ++nFailed;
      console.log(`FAIL  ${client}: ${name}: ${error?.stack ?? error}`);
    }
  }
  process.exit(nFailed === 0 ? 0 : 1);
}
