"""An async actor: a class with `async def` methods runs its calls on one event loop, many at a time.

While one call awaits, others proceed. They all run on one thread, so no lock is needed between two awaits. Here the
guests at a dinner wait for each other. An ordinary actor could not do this: its first call would never end. References
can be awaited too, inside and outside actors.

Prints:

    the last guest to arrive was number 3
    all of them ate: ['ann', 'bob', 'eve']
    1000 calls awaited with asyncio, their sum is 499500
"""

import asyncio

import miniray as ray


@ray.remote
class Dinner:
    def __init__(self, seats):
        self.seats, self.guests, self.complete = seats, [], asyncio.Event()

    async def come(self, name):
        self.guests.append(name)
        number = len(self.guests)
        if number == self.seats:
            self.complete.set()
        await self.complete.wait()
        return number

    async def who_ate(self):
        return sorted(self.guests)

    async def echo(self, n):
        await asyncio.sleep(0)
        return n


async def main(dinner):
    return sum(await asyncio.gather(*[dinner.echo.remote(n) for n in range(1000)]))


ray.init(num_cpus=1)

dinner = Dinner.remote(3)
numbers = ray.get([dinner.come.remote(name) for name in ("bob", "eve", "ann")])
print("the last guest to arrive was number", max(numbers))
print("all of them ate:", ray.get(dinner.who_ate.remote()))
print("1000 calls awaited with asyncio, their sum is", asyncio.run(main(dinner)))

ray.shutdown()
